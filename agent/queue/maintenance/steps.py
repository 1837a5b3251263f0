"""The steps in which the maintenance works: one process at a time, and most of the time idle."""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from shared.clock import Clock
from shared.db.database import Database
from shared.db.statements import Statement, load_statements

statements = load_statements(__file__)

# An arbitrary number, the same in all processes.
MAINTENANCE_LOCK = 7_209_534_103
# A step is followed by a pause of this many times its own duration.
PAUSE_FACTOR = 4.0


class Steps:
    """Runs single statements with pauses between them: on a busy machine a step takes longer, and so does its pause."""

    def __init__(self, database: Database, clock: Clock, pause_factor: float = PAUSE_FACTOR) -> None:
        self._database = database
        self._clock = clock
        self._pause_factor = pause_factor

    async def run(self, statement: Statement, parameters: Mapping[str, Any] = MappingProxyType({})) -> Sequence[Any]:
        """Run one step in its own transaction, then pause; no rows if another process is at work."""
        began = self._clock.monotonic()
        async with self._database.long_transaction() as session:
            is_ours = (await session.execute(statements.begin_step, {"key": MAINTENANCE_LOCK})).one().is_ours
            rows = (await session.execute(statement, parameters)).all() if is_ours else ()
        await asyncio.sleep(self._pause_factor * (self._clock.monotonic() - began))
        return rows
