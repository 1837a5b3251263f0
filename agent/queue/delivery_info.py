"""Delivery info: what a sender needs to know about a turn to send its reply."""

from dataclasses import dataclass

from sqlalchemy import text

from shared.db.database import Database

FIND = text("""
SELECT coalesce(personas.allow_mentions, false) AS allows_mentions, turns.status, last.platform_user_id AS asker,
       last.edited_at IS NOT NULL AND position(last.content IN (
           SELECT content FROM messages WHERE messages.turn_id = turns.id AND seq = 0
       )) = 0 AS was_edited,
       turns.attempt > 1 AS was_resumed
FROM turns LEFT JOIN personas ON personas.id = turns.persona_id
LEFT JOIN LATERAL (
    SELECT platform_user_id, edited_at, content FROM inbox WHERE inbox.turn_id = turns.id ORDER BY id DESC LIMIT 1
) AS last ON true
WHERE turns.id = :turn_id
""")


@dataclass(frozen=True, slots=True)
class DeliveryInfo:
    """What affects the delivery of a turn's reply.

    `asker`: the platform's id of the user who wrote the last message. `was_edited`: that message was edited after the
    turn had begun. `was_resumed`: an attempt of the turn ended with its process, perhaps after it had posted.
    """

    allows_mentions: bool = False
    status: str = "answered"
    asker: str | None = None
    was_edited: bool = False
    was_resumed: bool = False


async def find_delivery_info(database: Database, turn_id: int) -> DeliveryInfo:
    """Return the delivery info of a turn; the defaults if there is no such turn."""
    async with database.statement() as session:
        row = (await session.execute(FIND, {"turn_id": turn_id})).one_or_none()
    return DeliveryInfo() if row is None else DeliveryInfo(*row)
