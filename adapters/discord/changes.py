"""Messages that are changed or deleted after they were taken."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import discord
from sqlalchemy import text

from adapters.discord.buttons import answer_rows
from adapters.discord.incoming import PLATFORM, to_text
from adapters.discord.rest import Refused, Rest
from agent.redaction import redact
from shared.errors import Unavailable
from shared.log import get_logger
from shared.text import clean

if TYPE_CHECKING:
    from agent.app import App

SENT_WITHIN_SECONDS = 10

CHANGE = text("""
WITH changed AS (
    UPDATE inbox SET content = :content, edited_at = now()
    WHERE platform = 'discord' AND platform_event_id = :message_id AND content <> :content
    RETURNING id, turn_id
)
SELECT changed.turn_id FROM inbox LEFT JOIN changed ON changed.id = inbox.id
WHERE platform = 'discord' AND platform_event_id = :message_id
""")
ANSWER = text("""
SELECT platform_message_id, coalesce(platform_thread_id, platform_channel_id) AS channel, choices,
       status IN ('pending', 'claimed') AS is_on_its_way
FROM outbox WHERE turn_id = :turn_id
""")

log = get_logger()


@dataclass(frozen=True, slots=True)
class Edited:
    """A message that was taken. `turn_id`: the turn that had begun with another text than the one there is now."""

    turn_id: int | None


class Changes:
    """Keeps what we have in step with what Discord has."""

    def __init__(self, app: "App", rest: Rest) -> None:
        self._app, self._rest = app, rest

    async def edit(self, message: discord.Message, me: int) -> Edited | None:
        """Replace the text of a message that was taken; None when it was not."""
        given = {"message_id": str(message.id), "content": clean(to_text(message, me))}
        async with self._app.database.statement() as session:
            row = (await session.execute(CHANGE, given)).one_or_none()
        return None if row is None else Edited(row.turn_id)

    async def offer_again(self, message: discord.Message, turn_id: int) -> None:
        """Offer, below the answer to the text before, to answer the one that stands there now."""
        answer = await self._find_answer(turn_id)
        if answer is None or answer.platform_message_id is None:
            # Its answer is still to come, and will have the button.
            return
        rows = answer_rows(turn_id, str(message.author.id), self._app.clock.now(), answer.choices, was_edited=True)
        ids = {"channel_id": answer.channel, "message_id": answer.platform_message_id}
        try:
            await self._rest.call("PATCH", "/channels/{channel_id}/messages/{message_id}", {"components": rows}, **ids)
        except (Refused, Unavailable) as error:
            # The answer may be gone, or be one that only its asker sees.
            log.info("rerun_not_offered", turn=turn_id, cause=str(error))

    async def _find_answer(self, turn_id: int) -> Any:
        # One that is being sent just now may have been put together before the edit.
        for _ in range(SENT_WITHIN_SECONDS):
            async with self._app.database.statement() as session:
                answer = (await session.execute(ANSWER, {"turn_id": turn_id})).one_or_none()
            if answer is None or not answer.is_on_its_way:
                break
            await asyncio.sleep(1)
        return answer

    async def delete(self, message_ids: Iterable[int]) -> None:
        """Cancel what waits, and forget what was said."""
        await redact(self._app, PLATFORM, {str(each) for each in message_ids})
