"""Abandoned turns: a turn is stopped when no caller waits for its answer any more.

A caller who named the event id comes back for the answer, so their message is not abandoned when a connection ends:
the web adapter asks here only for messages without a named event id, or when the caller wants the turn to end.
"""

import asyncio
import json
from contextlib import suppress

from agent.live.listener import Listener
from shared.db.database import DatabaseLost
from shared.db.single import SessionSource
from shared.db.statements import load_statements

statements = load_statements(__file__)

# A closed request must stop its turn within one second, so the sum of these two is well below that.
RETURN_SECONDS = 0.3
ASK_SECONDS = 0.2


async def cancel_if_abandoned(database: SessionSource, listener: Listener, inbox_id: int) -> bool:
    """Stop the turn of this message, unless another caller waits for its answer or the same caller retries.

    Returns whether the message was withdrawn before a turn began; its files then belong to no turn.
    """
    await asyncio.sleep(RETURN_SECONDS)
    with suppress(DatabaseLost):
        async with database.statement() as session:
            rows = (await session.execute(statements.list_answered_together, {"inbox_id": inbox_id})).all()
        if await listener.is_awaited([row.id for row in rows], ASK_SECONDS):
            return False
        return await cancel(database, inbox_id) == "withdrawn"
    return False


async def cancel(database: SessionSource, inbox_id: int) -> str | None:
    """Withdraw a message or stop its turn, even if callers wait.

    Returns `withdrawn`, `stopped`, or None if there was nothing to cancel.
    """
    # If a turn is just beginning, the first statement waits for its lock but uses the old snapshot, so it runs twice.
    return await _try_cancel(database, inbox_id) or await _try_cancel(database, inbox_id)


async def _try_cancel(database: SessionSource, inbox_id: int) -> str | None:
    parameters = {"inbox_id": inbox_id, "note": json.dumps({"turn": 0, "inbox": [inbox_id], "end": True})}
    async with database.statement() as session:
        row = (await session.execute(statements.cancel_message, parameters)).one_or_none()
    return None if row is None else str(row.outcome)
