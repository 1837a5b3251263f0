"""Divides Discord's shards evenly among the processes that listen: each has one holder at a time, whose lease is a row.

Of a process that dies, the others take over the shards within LEASE_SECONDS + RENEW_SECONDS. `parley_hold_shards`
decides who holds which; it moves one at a time, and only between processes of which one holds two more than the other.
A process whose lease has ended keeps its connections, so that an outage of the database costs no sessions, but takes no
events of them before it knows whether the shards are still its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from adapters.base import name_holder, stay_up
from adapters.discord.events.listening import Checkpoint
from adapters.discord.gateway import Shard
from adapters.discord.sessions import Sessions
from shared.db.database import DatabaseLost
from shared.db.statements import load_statements
from shared.errors import ConfigurationError
from shared.log import get_logger

statements = load_statements(__file__)

if TYPE_CHECKING:
    from adapters.discord.settings import DiscordSettings
    from adapters.discord.transport.rest import Rest
    from agent.app import App

LEASE_SECONDS, RENEW_SECONDS = 12.0, 3.0
# One try to renew the lease, and the pause after one that failed.
TRY_SECONDS, AGAIN_SECONDS = 3.0, 1.0
# A shard that this process can't connect for so long is left to another one, which may have a way to Discord.
UNSERVED_SECONDS = 60.0


log = get_logger()
Connect = Callable[[Shard], Awaitable[None]]


class Connection(Struct, frozen=True):
    """A shard that this process holds, and the task of its client."""

    shard: Shard
    task: "asyncio.Task[None]"


class Shards:
    """Holds this process's share of the shards, and runs a client for each."""

    def __init__(self, app: "App", settings: "DiscordSettings", rest: "Rest", connect: Connect) -> None:
        self._app, self._settings, self._rest, self._connect = app, settings, rest, connect
        self._holder = name_holder()
        self._connections: dict[int, Connection] = {}
        # By shard that has no session at the moment: since when, by the monotonic clock.
        self._pending: dict[int, float] = {}

    async def run(self) -> None:
        """Hold shards until cancelled."""
        gateway = await self._rest.call("GET", "/gateway/bot")
        count = self._settings.shard_count or int(gateway["shards"])
        shard_ids = to_ids(self._settings.shard_ids, count)
        limits, seconds = gateway["session_start_limit"], self._settings.session_seconds
        bot = self._rest.rate_limiter.bot
        sessions = Sessions(self._app.database, bot, limits, seconds=seconds)
        try:
            while True:
                is_renewed = await self._renew(count, shard_ids, sessions)
                await asyncio.sleep(RENEW_SECONDS if is_renewed else AGAIN_SECONDS)
        finally:
            seen = await self._stop(list(self._connections), sessions)
            await asyncio.shield(self._release(seen))

    async def _renew(self, count: int, shard_ids: Collection[int] | None, sessions: Sessions) -> bool:
        now = self._app.clock.monotonic()
        pending = self._connections.keys() - sessions.begun
        self._pending = {shard_id: self._pending.get(shard_id, now) for shard_id in pending}
        marks = to_marks(self._connections)
        parameters: dict[str, Any] = {
            "holder": self._holder,
            "lease": LEASE_SECONDS,
            "count": count,
            "shard_ids": None if shard_ids is None else list(shard_ids),
            "held": list(marks),
            "seen": list(marks.values()),
            # No more than can start at once, and the first one alone: others start at this moment, too.
            "claims": max(0, sessions.at_once - len(pending)) if self._connections else 1,
            "unserved": [id_ for id_, since in self._pending.items() if now - since > UNSERVED_SECONDS],
        }
        try:
            async with asyncio.timeout(TRY_SECONDS):
                parameters["bot_id"] = await self._rest.rate_limiter.bot.find_id()
                async with self._app.database.statement() as session:
                    rows = (await session.execute(statements.hold_shards, parameters)).all()
        except (DatabaseLost, TimeoutError):
            return False
        sessions.held_until = now + LEASE_SECONDS
        held = {row.shard_id: row.seen_id for row in rows if row.shard_id is not None}
        await self._connect_to(held, rows[0].shard_count, sessions)
        return True

    async def _connect_to(self, marks: Mapping[int, str | None], count: int, sessions: Sessions) -> None:
        changed = [connection.shard.id for connection in self._connections.values() if connection.shard.count != count]
        if lost := sorted({*changed, *(self._connections.keys() - marks.keys())}):
            log.info("discord_shards_left", adapter=self._rest.bot.adapter, shards=lost)
            await self._stop(lost, sessions)
        new = sorted(marks.keys() - self._connections.keys())
        if new:
            log.info("discord_shards_leased", adapter=self._rest.bot.adapter, shards=new, of=count)
        for shard_id in new:
            shard = Shard(shard_id, count, Checkpoint(), sessions=sessions)
            shard.checkpoint.begin_at(marks[shard_id], self._app.clock.now())
            start = stay_up(self._rest.bot.adapter, partial(self._connect, shard), self._app.clock.monotonic)
            task = asyncio.create_task(start, name=f"{self._rest.bot.adapter} {shard_id}")
            self._connections[shard_id] = Connection(shard, task)

    async def _stop(self, shard_ids: Collection[int], sessions: Sessions) -> dict[int, str | None]:
        """Close the connections of these shards; return their marks, which a message that was being stored may move."""
        connections = {shard_id: self._connections.pop(shard_id) for shard_id in shard_ids}
        for connection in connections.values():
            connection.task.cancel()
        await asyncio.gather(*(connection.task for connection in connections.values()), return_exceptions=True)
        sessions.begun -= connections.keys()
        return to_marks(connections)

    async def _release(self, marks: Mapping[int, str | None]) -> None:
        parameters: dict[str, Any] = {"holder": self._holder, "held": list(marks), "seen": list(marks.values())}
        try:
            parameters["bot_id"] = await self._rest.rate_limiter.bot.find_id()
            async with self._app.database.statement() as session:
                await session.execute(statements.release_shards, parameters)
        except DatabaseLost:
            log.info("discord_shards_not_released")


def to_marks(connections: Mapping[int, Connection]) -> dict[int, str | None]:
    """Return by shard what is stored of it."""
    return {shard_id: connection.shard.checkpoint.to_text() for shard_id, connection in connections.items()}


def to_ids(ranges: str | None, count: int) -> list[int] | None:
    """Return the shard ids in a list like `0-3,7`, None for all; raises `ConfigurationError`."""
    if ranges is None:
        return None
    ids: set[int] = set()
    for part in ranges.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise ConfigurationError(f"DISCORD_SHARD_IDS is wrong: write 0-3,7, not {ranges!r}.")
        ids |= set(range(int(first), int(last or first) + 1))
    if max(ids) >= count:
        raise ConfigurationError(f"DISCORD_SHARD_IDS names shard {max(ids)}, but there are {count}, from 0.")
    return sorted(ids)
