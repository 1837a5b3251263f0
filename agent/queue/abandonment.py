"""Abandoned turns: when no caller waits for an answer any more, its turn is stopped.

A caller who only lost the connection and asks again at once, with the same event id, finds the turn still running; one
who asks later gets its cancelled answer.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy import text

from agent.events.listener import Listener
from agent.events.notifications import STOPS, TURNS, to_note
from shared.db.database import Database, DatabaseLost

# A closed request has to end its turn within a second; the two together stay well below that.
RETURN_SECONDS = 0.3
ASK_SECONDS = 0.2

# The messages that one turn answers together with this one.
ANSWERED_TOGETHER = text("""
SELECT other.id FROM inbox JOIN inbox AS other ON other.id = inbox.id OR other.turn_id = inbox.turn_id
WHERE inbox.id = :inbox_id
""")
# A message that no turn has taken yet is withdrawn; otherwise the turn that took it is stopped.
CANCEL = text(f"""
WITH withdrawn AS (
    UPDATE inbox SET status = 'cancelled' WHERE id = :inbox_id AND status = 'waiting' RETURNING id
), stopped AS (
    UPDATE turns SET stop_requested = true FROM inbox
    WHERE inbox.id = :inbox_id AND inbox.status = 'claimed' AND turns.id = inbox.turn_id AND turns.status = 'running'
    RETURNING turns.id
)
SELECT 'withdrawn' AS outcome, pg_notify('{TURNS}', :note) FROM withdrawn
UNION ALL SELECT 'stopped', pg_notify('{STOPS}', CAST(id AS text)) FROM stopped
""")


async def cancel_if_abandoned(database: Database, listener: Listener, inbox_id: int) -> bool:
    """Stop the turn of this message, unless another caller waits for its answer or the same one comes back.

    Returns whether the message was withdrawn before any turn began: then its files belong to no turn.
    """
    await asyncio.sleep(RETURN_SECONDS)
    with suppress(DatabaseLost):
        if await listener.is_awaited(await _list_together(database, inbox_id), ASK_SECONDS):
            return False
        return await cancel(database, inbox_id) == "withdrawn"
    return False


async def cancel(database: Database, inbox_id: int) -> str | None:
    """Withdraw a message, or stop the turn that has it, even if callers wait; return `withdrawn` or `stopped`."""
    # While a turn begins, the statement waits for it and then sees the message as it was before: it has to run again.
    return await _try_cancel(database, inbox_id) or await _try_cancel(database, inbox_id)


async def _list_together(database: Database, inbox_id: int) -> Sequence[int]:
    async with database.statement() as session:
        return [row.id for row in (await session.execute(ANSWERED_TOGETHER, {"inbox_id": inbox_id})).all()]


async def _try_cancel(database: Database, inbox_id: int) -> str | None:
    given = {"inbox_id": inbox_id, "note": to_note(0, [inbox_id], is_end=True)}
    async with database.statement() as session:
        row = (await session.execute(CANCEL, given)).one_or_none()
    return None if row is None else str(row.outcome)
