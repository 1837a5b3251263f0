"""Messages that are changed or deleted after they were taken."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import discord

from adapters.discord.events.incoming import PLATFORM, to_text
from adapters.discord.sending.buttons import answer_rows
from adapters.discord.transport.rest import Refused, Rest
from agent.queue.edits import Edited, change_message, find_answer
from agent.queue.redaction import redact
from shared.errors import Unavailable
from shared.log import get_logger
from shared.text import clean

if TYPE_CHECKING:
    from agent.app import App

log = get_logger()


class Changes:
    """Keeps what we have in step with what Discord has."""

    def __init__(self, app: "App", rest: Rest) -> None:
        self._app, self._rest = app, rest

    async def edit(self, message: discord.Message, me: int) -> Edited | None:
        """Replace the text of a message that was taken; None when it was not."""
        return await change_message(self._app.database, PLATFORM, str(message.id), clean(to_text(message, me)))

    async def offer_again(self, message: discord.Message, turn_id: int) -> None:
        """Offer, below the answer to the text before, to answer the one that stands there now."""
        answer = await find_answer(self._app.database, turn_id)
        if answer is None:
            # It is still to come, and will have the button.
            return
        rows = answer_rows(turn_id, str(message.author.id), self._app.clock.now(), answer.choices, was_edited=True)
        ids = {
            "channel_id": answer.platform_thread_id or answer.platform_channel_id,
            "message_id": answer.platform_message_id,
        }
        try:
            await self._rest.call("PATCH", "/channels/{channel_id}/messages/{message_id}", {"components": rows}, **ids)
        except (Refused, Unavailable) as error:
            # The answer may be gone, or be one that only its asker sees.
            log.info("rerun_not_offered", turn=turn_id, cause=str(error))

    async def delete(self, message_ids: Iterable[int]) -> None:
        """Cancel what waits, and forget what was said."""
        await redact(
            self._app.database, self._app.storage, platform=PLATFORM, message_ids={str(each) for each in message_ids}
        )
