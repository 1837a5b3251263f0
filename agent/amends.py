"""Messages that their writers change or delete after they were taken."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text

from shared.database import Database

DELETED = "[deleted]"

CHANGE = text("""
UPDATE inbox SET content = :content, edited_at = now()
WHERE platform = :platform AND platform_event_id = :event_id AND content <> :content
RETURNING turn_id
""")
ANSWER = text("""
SELECT platform_message_id, platform_channel_id, platform_thread_id, content, choices
FROM outbox WHERE turn_id = :turn_id AND status = 'delivered' AND platform_message_id IS NOT NULL
""")
# The journal's first step holds what all messages of the turn have said; it is put together anew.
REDACT = text("""
WITH gone AS (
    UPDATE inbox SET content = :deleted, attachments = '[]', surroundings = '{}',
        status = CASE WHEN status = 'waiting' THEN 'cancelled' ELSE status END
    WHERE platform = :platform AND platform_event_id = ANY(:event_ids) RETURNING id, turn_id
), left_over AS (
    SELECT turn_id, coalesce(
        (SELECT string_agg(other.content, E'\\n' ORDER BY other.sent_at, other.id) FROM inbox AS other
         WHERE other.turn_id = gone.turn_id AND other.platform_event_id <> ALL(:event_ids)), :deleted
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


@dataclass(frozen=True, slots=True)
class SaidAnswer:
    """The answer to a message that was changed after it: where it stands, and what it offers."""

    turn_id: int
    message_id: str
    channel: str
    thread: str | None
    content: str
    choices: list[str]


async def change_message(database: Database, platform: str, event_id: str, content: str) -> SaidAnswer | None:
    """Replace a text that no turn has begun with; return the answer to the old one, if it was given already."""
    given = {"platform": platform, "event_id": event_id, "content": content}
    async with database.statement() as session:
        row = (await session.execute(CHANGE, given)).one_or_none()
        if row is None or row.turn_id is None:
            return None
        answer = (await session.execute(ANSWER, {"turn_id": row.turn_id})).one_or_none()
    # Without one its answer is still to come, and will know of the change.
    return None if answer is None else SaidAnswer(row.turn_id, *answer)


async def redact_messages(database: Database, platform: str, event_ids: Sequence[str]) -> int:
    """Cancel what waits, and forget what was said; return how many messages that were."""
    given = {"platform": platform, "event_ids": list(event_ids), "deleted": DELETED}
    async with database.statement() as session:
        return int((await session.execute(REDACT, given)).scalar_one())
