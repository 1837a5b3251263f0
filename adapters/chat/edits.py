"""Messages that are edited or deleted after they were stored, on every platform."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from adapters.base import STORE_SECONDS
from adapters.chat.buttons import AnswerButtons, TurnButtons
from agent.queue.edits import Edited, change_message, find_answer
from agent.queue.redaction import redact
from shared.db.database import retry_on_lost_db
from shared.text import clean

if TYPE_CHECKING:
    from agent.app import App


class Edits:
    """Applies edits and deletions to one platform's stored messages."""

    def __init__(self, app: "App", platform: str) -> None:
        self._app, self._platform = app, platform

    async def change(self, message_id: str, text: str) -> Edited | None:
        """Replace the text of a stored message; None if it is not stored."""
        content = clean(text)
        return await retry_on_lost_db(
            lambda: change_message(self._app.database, self._platform, message_id, content=content), STORE_SECONDS
        )

    async def delete(self, message_ids: Iterable[str]) -> int:
        """Cancel messages that are not answered yet, and redact those that are; return how many were stored."""
        ids = set(message_ids)
        database, storage = self._app.database, self._app.files.storage
        return await retry_on_lost_db(
            lambda: redact(database, storage, platform=self._platform, message_ids=ids), STORE_SECONDS
        )

    async def offer_again(
        self, turn_id: int, asker: str, show: Callable[[Any, AnswerButtons], Awaitable[None]]
    ) -> None:
        """Offer to answer the edited text, with a button below the old answer.

        `show` is called with the outbox row of that answer. An answer that is not sent yet gets the button when it is.
        """
        answer = await find_answer(self._app.database, turn_id)
        if answer is not None:
            turn_buttons = TurnButtons(turn_id, asker, self._app.clock.now())
            await show(answer, turn_buttons.answer(answer.choices, was_edited=True))
