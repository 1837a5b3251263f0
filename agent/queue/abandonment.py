"""Abandoned turns: a turn is stopped when no caller waits for its answer any more.

A caller who named the event id comes back for the answer, so their message is not abandoned when a connection ends:
the web adapter asks here only for messages without a named event id, or when the caller wants the turn to end.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy import text

from agent.live.announcer import to_note
from agent.live.channels import CANCELLATIONS, TURNS
from agent.live.listener import Listener
from shared.db.database import Database, DatabaseLost

# A closed request must stop its turn within one second, so the sum of these two is well below that.
RETURN_SECONDS = 0.3
ASK_SECONDS = 0.2

# This message and the others that the same turn answers.
ANSWERED_TOGETHER = text("""
SELECT other.id FROM inbox JOIN inbox AS other ON other.id = inbox.id OR other.turn_id = inbox.turn_id
WHERE inbox.id = :inbox_id
""")
# A message that still waits for a turn is withdrawn; otherwise its turn is stopped.
CANCEL = text(f"""
WITH withdrawn AS (
    UPDATE inbox SET status = 'cancelled' WHERE id = :inbox_id AND status = 'waiting' RETURNING id
), stopped AS (
    UPDATE turns SET stop_requested = true FROM inbox
    WHERE inbox.id = :inbox_id AND inbox.status = 'claimed' AND turns.id = inbox.turn_id AND turns.status = 'running'
    RETURNING turns.id
)
SELECT 'withdrawn' AS outcome, pg_notify('{TURNS}', :note) FROM withdrawn
UNION ALL SELECT 'stopped', pg_notify('{CANCELLATIONS}', CAST(id AS text)) FROM stopped
""")


async def cancel_if_abandoned(database: Database, listener: Listener, inbox_id: int) -> bool:
    """Stop the turn of this message, unless another caller waits for its answer or the same caller retries.

    Returns whether the message was withdrawn before a turn began; its files then belong to no turn.
    """
    await asyncio.sleep(RETURN_SECONDS)
    with suppress(DatabaseLost):
        if await listener.is_awaited(await _list_together(database, inbox_id), ASK_SECONDS):
            return False
        return await cancel(database, inbox_id) == "withdrawn"
    return False


async def cancel(database: Database, inbox_id: int) -> str | None:
    """Withdraw a message or stop its turn, even if callers wait.

    Returns `withdrawn`, `stopped`, or None if there was nothing to cancel.
    """
    # If a turn is just beginning, the first statement waits for its lock but uses the old snapshot, so it runs twice.
    return await _try_cancel(database, inbox_id) or await _try_cancel(database, inbox_id)


async def _list_together(database: Database, inbox_id: int) -> Sequence[int]:
    async with database.statement() as session:
        return [row.id for row in (await session.execute(ANSWERED_TOGETHER, {"inbox_id": inbox_id})).all()]


async def _try_cancel(database: Database, inbox_id: int) -> str | None:
    parameters = {"inbox_id": inbox_id, "note": to_note(0, [inbox_id], is_end=True)}
    async with database.statement() as session:
        row = (await session.execute(CANCEL, parameters)).one_or_none()
    return None if row is None else str(row.outcome)
