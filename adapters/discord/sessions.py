"""The pace of new gateway sessions, which all processes of a token share: a row in Postgres for each bucket.

Discord starts one session in five seconds for each remainder of the shard's number by `max_concurrency`, and ends what
comes sooner.
"""

import asyncio
from typing import Any

from adapters.base import BotAccount
from shared.db.database import Database, DatabaseLost
from shared.db.statements import load_statements
from shared.errors import Unavailable

statements = load_statements(__file__)

# A queue is never that long: the database's clock was set back since.
LONGEST_SECONDS = 600


class NoSessionsLeft(Unavailable):
    """Discord starts no more sessions for this token today; it does again in {hours:.1f} hours."""

    def __init__(self, seconds: float) -> None:
        super().__init__(hours=seconds / 3600, retry_after=seconds)


class Sessions:
    """The sessions that this process starts; `limits` is Discord's `session_start_limit`.

    `begun` has the shards that have a session, or may start one now. Until `held_until`, by the monotonic clock, no
    other process may take them.
    """

    def __init__(self, database: Database, bot: BotAccount, limits: dict[str, Any], seconds: float) -> None:
        if limits["remaining"] < 1:
            raise NoSessionsLeft(limits["reset_after"] / 1000)
        self.at_once = max(1, int(limits["max_concurrency"]))
        self.begun: set[int] = set()
        self.held_until = 0.0
        self._database, self._bot, self._seconds = database, bot, seconds

    async def wait(self, shard_id: int) -> None:
        """Wait until a session of this shard may start."""
        try:
            parameters = {
                "bot_id": await self._bot.find_id(),
                "bucket": shard_id % self.at_once,
                "seconds": self._seconds,
                "longest": LONGEST_SECONDS,
            }
            async with self._database.statement() as session:
                wait = float((await session.execute(statements.reserve_session, parameters)).scalar_one())
        except DatabaseLost:
            # The pace of one process alone; Discord refuses what is too soon all the same.
            wait = self._seconds
        await asyncio.sleep(wait)
        self.begun.add(shard_id)
