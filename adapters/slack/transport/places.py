"""Which processes hold a socket: Slack opens ten for an app, so the oldest ten of those that listen, by leases as rows.

The others stand by. Slack sends each event to one of the sockets, and again to any of them when it is not acknowledged.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from adapters.base import BotAccount, name_holder
from shared.clock import Clock
from shared.db.database import Database, DatabaseLost
from shared.db.statements import load_statements
from shared.errors import Unavailable
from shared.log import get_logger

statements = load_statements(__file__)

MOST_SOCKETS = 10
LEASE_SECONDS, RENEW_SECONDS = 15.0, 3.0

log = get_logger()


class Places:
    """The place of this process among those that listen for one app; `bot` is the account of the app-level token."""

    def __init__(self, database: Database, bot: BotAccount, clock: Clock) -> None:
        self._database, self._bot, self._clock = database, bot, clock
        self._holder = name_holder()
        self._renewed = float("-inf")

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Wait for a place, and give it back after the block, which has to call `keep` often."""
        is_waiting = False
        try:
            while not await self._renew():
                if not is_waiting:
                    log.info("slack_stands_by", sockets=MOST_SOCKETS)
                is_waiting = True
                await asyncio.sleep(RENEW_SECONDS)
            yield
        finally:
            await asyncio.shield(self._release())

    async def keep(self) -> None:
        """Renew the lease now and then; raises `Unavailable` when it was lost and others have all places."""
        if self._clock.monotonic() - self._renewed < RENEW_SECONDS:
            return
        # Without the database nobody takes a place, and Slack repeats what is not acknowledged.
        with suppress(DatabaseLost):
            if not await self._renew():
                raise Unavailable("Other processes hold all the sockets that Slack opens for this app.")

    async def _renew(self) -> bool:
        parameters = {
            "bot_id": await self._bot.find_id(),
            "holder": self._holder,
            "lease": LEASE_SECONDS,
            "most": MOST_SOCKETS,
        }
        async with self._database.statement() as session:
            has_place = bool((await session.execute(statements.hold_socket, parameters)).scalar_one())
        self._renewed = self._clock.monotonic()
        return has_place

    async def _release(self) -> None:
        with suppress(DatabaseLost):
            parameters = {"bot_id": await self._bot.find_id(), "holder": self._holder}
            async with self._database.statement() as session:
                await session.execute(statements.leave_socket, parameters)
