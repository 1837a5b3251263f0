"""Messages that are changed or deleted after they were taken."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import discord
from sqlalchemy import text

from adapters.discord.buttons import answer_rows
from adapters.discord.incoming import is_written_by_a_person, to_text
from adapters.discord.rest import Refused, Rest
from shared.log import get_logger
from shared.text import clean

if TYPE_CHECKING:
    from agent.app import App

DELETED = "[deleted]"

CHANGE = text("""
UPDATE inbox SET content = :content, edited_at = now()
WHERE platform = 'discord' AND platform_event_id = :message_id AND content <> :content
RETURNING status, turn_id
""")
ANSWER = text("""
SELECT platform_message_id, coalesce(platform_thread_id, platform_channel_id) AS channel, choices
FROM outbox WHERE turn_id = :turn_id AND status = 'delivered' AND platform_message_id IS NOT NULL
""")
# The journal's first step holds what all messages of the turn have said; it is put together anew.
REDACT = text("""
WITH gone AS (
    UPDATE inbox SET content = :deleted, attachments = '[]', surroundings = '{}',
        status = CASE WHEN status = 'waiting' THEN 'cancelled' ELSE status END
    WHERE platform = 'discord' AND platform_event_id = ANY(:message_ids) RETURNING id, turn_id
), left_over AS (
    SELECT turn_id, coalesce(
        (SELECT string_agg(other.content, E'\\n' ORDER BY other.sent_at, other.id) FROM inbox AS other
         WHERE other.turn_id = gone.turn_id AND other.platform_event_id <> ALL(:message_ids)), :deleted
    ) AS content FROM gone WHERE turn_id IS NOT NULL
), forgotten AS (
    UPDATE messages SET content = left_over.content FROM left_over
    WHERE messages.turn_id = left_over.turn_id AND messages.role = 'user'
), untold AS (
    UPDATE turn_events SET payload = payload || jsonb_build_object('content', left_over.content) FROM left_over
    WHERE turn_events.turn_id = left_over.turn_id AND turn_events.name = 'user_message'
)
SELECT count(*) AS changed FROM gone
""")

log = get_logger()


class Changes:
    """Keeps what we have in step with what Discord has."""

    def __init__(self, app: "App", rest: Rest) -> None:
        self._app, self._rest = app, rest

    async def edit(self, message: discord.Message, me: int) -> None:
        """Replace a text that no turn has begun with; else offer to answer the new one."""
        if not is_written_by_a_person(message) or message.edited_at is None:
            return
        given = {"message_id": str(message.id), "content": clean(to_text(message, me))}
        async with self._app.database.statement() as session:
            row = (await session.execute(CHANGE, given)).one_or_none()
            if row is None or row.turn_id is None:
                return
            answer = (await session.execute(ANSWER, {"turn_id": row.turn_id})).one_or_none()
        if answer is None:
            # Its answer is still to come, and will have the button.
            return
        rows = answer_rows(row.turn_id, str(message.author.id), self._app.clock.now(), answer.choices, was_edited=True)
        ids = {"channel_id": answer.channel, "message_id": answer.platform_message_id}
        try:
            await self._rest.call("PATCH", "/channels/{channel_id}/messages/{message_id}", {"components": rows}, **ids)
        except Refused as error:
            # The answer may be gone, or be one that only its asker sees.
            log.info("rerun_not_offered", turn=row.turn_id, cause=str(error))

    async def delete(self, message_ids: Iterable[int]) -> None:
        """Cancel what waits, and forget what was said."""
        given = {"message_ids": [str(each) for each in message_ids], "deleted": DELETED}
        async with self._app.database.statement() as session:
            changed = (await session.execute(REDACT, given)).scalar_one()
        if changed:
            log.info("messages_redacted", count=changed)
