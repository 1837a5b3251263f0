"""Callers that leave: when nobody waits for an answer any more, its turn is stopped.

Who merely lost the connection and asks again at once, with the same event id, finds the turn running; later, its
cancelled answer.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy import text

from agent.app import App
from agent.events.notifications import STOPS, TURNS, to_note
from shared.db.database import DatabaseLost

# Together they stay well below a second, in which a closed request has to have ended its turn.
RETURN_SECONDS = 0.3
ASK_SECONDS = 0.2

# What is coalesced with it is answered in one turn.
TOGETHER = text("""
SELECT other.id FROM inbox JOIN inbox AS other ON other.id = inbox.id OR other.turn_id = inbox.turn_id
WHERE inbox.id = :inbox_id
""")
# A message that no turn has taken yet is taken back; one that has been taken has its turn stopped.
LEAVE = text(f"""
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


async def cancel_if_abandoned(app: App, inbox_id: int) -> bool:
    """Stop what works on this message, unless somebody else waits for its answer or comes back for it.

    Returns whether it was taken back before any turn began: then its files are nobody's.
    """
    await asyncio.sleep(RETURN_SECONDS)
    with suppress(DatabaseLost):
        if await app.events.is_awaited(await _together(app, inbox_id), ASK_SECONDS):
            return False
        return await cancel(app, inbox_id) == "withdrawn"
    return False


async def cancel(app: App, inbox_id: int) -> str | None:
    """Take a message back, or stop the turn that has it, whoever waits; return which: `withdrawn` or `stopped`."""
    # Whoever waits for a turn to be begun sees the message as it was before: it has to look again.
    return await _leave(app, inbox_id) or await _leave(app, inbox_id)


async def _together(app: App, inbox_id: int) -> Sequence[int]:
    async with app.database.statement() as session:
        return [row.id for row in (await session.execute(TOGETHER, {"inbox_id": inbox_id})).all()]


async def _leave(app: App, inbox_id: int) -> str | None:
    given = {"inbox_id": inbox_id, "note": to_note(0, [inbox_id], is_end=True)}
    async with app.database.statement() as session:
        row = (await session.execute(LEAVE, given)).one_or_none()
    return None if row is None else str(row.outcome)
