"""Distributes Discord's shards over processes: a lease in Postgres for each shard, with one holder at a time.

The shards of a process that dies are taken over within LEASE_SECONDS + RENEW_SECONDS.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING
from uuid import uuid4

from adapters.base import stay_up
from adapters.discord.events.incoming import PLATFORM
from adapters.discord.gateway import Checkpoint
from shared.db.database import DatabaseLost
from shared.db.statements import load_statements
from shared.errors import ConfigurationError
from shared.log import get_logger

statements = load_statements(__file__)

if TYPE_CHECKING:
    from adapters.discord.settings import DiscordSettings
    from adapters.discord.transport.rest import Rest
    from agent.app import App

LEASE_SECONDS, RENEW_SECONDS = 20.0, 5.0
# Without the database the lease can't be renewed: the connection is closed before another process may take the shard.
GIVE_UP_SECONDS = 12.0


log = get_logger()
Connect = Callable[[list[int], int, Checkpoint], Awaitable[None]]


class Shards:
    """Claims free shards, and runs one client for all shards claimed at the same time."""

    def __init__(self, app: "App", settings: "DiscordSettings", rest: "Rest", connect: Connect) -> None:
        self._app, self._settings, self._rest, self._connect = app, settings, rest, connect
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self._checkpoint = Checkpoint()
        self._running: dict[tuple[int, ...], asyncio.Task[None]] = {}
        self._renewed = app.clock.monotonic()

    async def run(self) -> None:
        """Claim and hold shards until cancelled."""
        count = self._settings.shard_count
        if count is None:
            count = int((await self._rest.call("GET", "/gateway/bot"))["shards"])
        shard_ids = to_ids(self._settings.shard_ids, count)
        try:
            while True:
                await self._hold(shard_ids, count)
                await asyncio.sleep(RENEW_SECONDS)
        finally:
            await self._stop(list(self._running))
            await asyncio.shield(self._release())

    async def _hold(self, shard_ids: Collection[int], count: int) -> None:
        try:
            parameters = {
                "bot_id": await self._rest.rate_limiter.bot.find_id(),
                "holder": self._holder,
                "lease": LEASE_SECONDS,
                "wanted": list(shard_ids),
                "seen": self._checkpoint.to_text(),
            }
            async with self._app.database.statement() as session:
                rows = (await session.execute(statements.claim_shard, parameters)).all()
            for row in rows:
                if row.shard_id not in self._own_ids():
                    self._checkpoint.begin_at(row.seen_id)
            claims = {row.shard_id for row in rows}
        except DatabaseLost:
            if self._app.clock.monotonic() - self._renewed > GIVE_UP_SECONDS and self._running:
                log.error("discord_shards_given_up", shards=sorted(self._own_ids()))
                await self._stop(list(self._running))
            return
        self._renewed = self._app.clock.monotonic()
        lost = self._own_ids() - claims
        if lost:
            log.warning("discord_shards_lost", shards=sorted(lost))
            await self._stop([ids for ids in self._running if lost & set(ids)])
        if free := sorted(claims - self._own_ids()):
            log.info("discord_shards_leased", shards=free, of=count)
            name = f"discord {free[0]}"
            start = stay_up(PLATFORM, lambda: self._connect(free, count, self._checkpoint), self._app.clock.monotonic)
            self._running[tuple(free)] = asyncio.create_task(start, name=name)

    def _own_ids(self) -> set[int]:
        return {shard_id for ids in self._running for shard_id in ids}

    async def _stop(self, groups: list[tuple[int, ...]]) -> None:
        tasks = [self._running.pop(ids) for ids in groups]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _release(self) -> None:
        parameters = {
            "bot_id": await self._rest.rate_limiter.bot.find_id(),
            "holder": self._holder,
            "seen": self._checkpoint.to_text(),
        }
        try:
            async with self._app.database.statement() as session:
                await session.execute(statements.release_shard, parameters)
        except DatabaseLost:
            log.info("discord_shards_not_released")


def to_ids(ranges: str | None, count: int) -> list[int]:
    """Return the shard ids in a list like `0-3,7`, or all; raises `ConfigurationError`."""
    if ranges is None:
        return list(range(count))
    ids: set[int] = set()
    for part in ranges.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise ConfigurationError(f"DISCORD_SHARD_IDS is wrong: write 0-3,7, not {ranges!r}.")
        ids |= set(range(int(first), int(last or first) + 1))
    if max(ids) >= count:
        raise ConfigurationError(f"DISCORD_SHARD_IDS names shard {max(ids)}, but there are {count}, from 0.")
    return sorted(ids)
