"""The pace of calls in a channel that Slack has limited, shared by all processes: a row in Postgres.

A process that knew only of its own calls would get every second one refused beside another process. Only calls to a
limited channel read and write the row.
"""

from msgspec import Struct

from shared.db.database import Database, DatabaseLost
from shared.db.statements import load_statements

statements = load_statements(__file__)

# The distance between calls after a 429, by how much it grows with each further one, and how long it is kept.
FIRST_DISTANCE, GROWTH, LONGEST_DISTANCE, KEPT_SECONDS = 1.1, 1.5, 60.0, 60.0


class Slot(Struct, frozen=True):
    """The turn of one call: in so many seconds; the channel was last limited `age` seconds ago."""

    wait: float
    age: float


class SharedPace:
    """The pace of one method in one channel of a workspace."""

    def __init__(self, database: Database, team_id: str, method: str, channel: str) -> None:
        self._database = database
        self._parameters = {"team_id": team_id, "method": method, "channel": channel, "kept": KEPT_SECONDS}

    async def reserve(self, max_wait: float) -> Slot | None:
        """Reserve the next call, unless that is more than `max_wait` seconds ahead: then others may have it.

        Returns None if no process has been refused of late, or without the database.
        """
        try:
            async with self._database.statement() as session:
                row = (
                    await session.execute(statements.reserve_call, self._parameters | {"max_wait": max_wait})
                ).one_or_none()
                if row is None:
                    row = (await session.execute(statements.read_wait, self._parameters)).one_or_none()
        except DatabaseLost:
            return None
        return None if row is None else Slot(float(row.wait), float(row.age))

    async def slow_down(self, seconds: float) -> None:
        """Let no process call for so long, and all together less often afterwards."""
        rules = {"first": FIRST_DISTANCE, "growth": GROWTH, "longest": LONGEST_DISTANCE}
        try:
            async with self._database.statement() as session:
                await session.execute(statements.slow_down, self._parameters | rules | {"seconds": seconds})
        except DatabaseLost:
            return
