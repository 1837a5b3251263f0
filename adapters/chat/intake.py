"""What people write, on every platform: typed commands, and edits and deletions of messages that are stored."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adapters.base import STORE_SECONDS
from adapters.chat.buttons import AnswerButtons, TurnButtons
from adapters.chat.undelivered import keep
from agent import commands
from agent.queue.edits import Edited, change_message, find_answer
from agent.queue.inbox import accept_answered
from agent.queue.redaction import redact
from shared.db.database import retry_on_lost_db
from shared.errors import Unavailable, Undeliverable
from shared.log import get_logger
from shared.text import clean

if TYPE_CHECKING:
    from agent.app import App
    from agent.commands import CommandReply
    from shared.messages import IncomingMessage

log = get_logger()


async def answer_typed(
    app: "App",
    message: "IncomingMessage",
    post: "Callable[[CommandReply], Awaitable[object]]",
    prepare: "Callable[[CommandReply], Awaitable[CommandReply]] | None" = None,
) -> bool:
    """Answer a typed command once, however often the message comes; return False if it is not a command.

    `post` shows the reply. While the platform is not available, the reply is kept: as `prepare` has made it, for what
    may be done only once.
    """
    if commands.COMMAND_LINE.fullmatch(clean(message.content).strip()) is None:
        return False
    if not await accept_answered(app.database, message):
        return True
    sender, place, context = message.sender, message.place, message.platform_context
    reply = await retry_on_lost_db(
        lambda: commands.answer(app, sender, place, text=message.content, platform_context=context), STORE_SECONDS
    )
    if reply is None:
        return True
    # Where only one person reads, a private answer is one like any other.
    reply = replace(reply, is_private=reply.is_private and not place.is_direct)
    reply = reply if prepare is None else await prepare(reply)
    try:
        await post(reply)
    except Undeliverable as error:
        log.warning("command_not_answered", cause=str(error))
    except Unavailable as error:
        asker, message_id = sender.platform_user_id, message.platform_message_id
        await keep(app, place, asker=asker, reply=reply, message_id=message_id, error=error)
    return True


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
