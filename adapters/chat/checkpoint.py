"""The time up to which every message is stored: one row per bot in Postgres, for the next process that listens.

While a process listens, the platform delivers a message within seconds, or repeats it until it is accepted.
"""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from adapters.base import BotAccount, isolated
from shared.db.database import Database, DatabaseLost
from shared.db.statements import load_statements
from shared.errors import Unavailable
from shared.log import get_logger

statements = load_statements(__file__)

if TYPE_CHECKING:
    from agent.app import App

# Older messages have arrived, or the platform repeats them.
IN_TRANSIT = timedelta(seconds=15)
HELD_SECONDS = 30
NOTE_SECONDS, LOOK_SECONDS, LOST_SECONDS = 5.0, 0.5, 20.0


log = get_logger()
Missed = TypeVar("Missed")


class Checkpoint:
    """The mark of one bot, shared by all its processes: seconds since 1970, as text."""

    def __init__(self, database: Database, platform: str, token: str) -> None:
        self._database, self._bot = database, BotAccount(database, platform, token)

    async def find_gap(self) -> str | None:
        """Return the time since which no process has listened; None if one does, or if it is unknown."""
        parameters = {"bot_id": await self._bot.find_id(), "held": HELD_SECONDS}
        async with self._database.statement() as session:
            row = (await session.execute(statements.find_gap, parameters)).one()
        return None if row.is_held else row.seen_id

    async def note(self, now: datetime) -> None:
        """Store that a process listens now."""
        parameters = {"bot_id": await self._bot.find_id(), "seen": to_mark(now - IN_TRANSIT), "held": HELD_SECONDS}
        async with self._database.statement() as session:
            await session.execute(statements.note_seen, parameters)

    async def release(self) -> None:
        """Store that this process no longer listens."""
        parameters = {"bot_id": await self._bot.find_id()}
        async with self._database.statement() as session:
            await session.execute(statements.release, parameters)


async def attend(app: "App", checkpoint: Checkpoint, is_connected: Callable[[], Awaitable[bool]]) -> None:
    """Update the checkpoint while we listen; raises `Unavailable` if a lost connection does not come back."""
    try:
        await _note_while_connected(app, checkpoint, is_connected)
    finally:
        with suppress(DatabaseLost):
            await checkpoint.release()


async def _note_while_connected(
    app: "App", checkpoint: Checkpoint, is_connected: Callable[[], Awaitable[bool]]
) -> None:
    last, last_note = app.clock.monotonic(), 0.0
    while True:
        now = app.clock.monotonic()
        last = now if await is_connected() else last
        if now - last > LOST_SECONDS:
            raise Unavailable("The connection to the platform is lost.")
        if last == now and now - last_note >= NOTE_SECONDS:
            last_note = now
            with suppress(DatabaseLost):
                await checkpoint.note(app.clock.now())
        await asyncio.sleep(LOOK_SECONDS)


async def accept_missed(
    platform: str, missed: AsyncIterable[Missed], accept: Callable[[Missed], Awaitable[None]]
) -> int:
    """Accept the missed messages in this order; return how many there were."""
    count = 0
    async for message in missed:
        count += 1
        await isolated(accept(message), "missed_message_not_accepted", platform=platform)
    if count:
        log.info("caught_up", platform=platform, messages=count)
    return count


def oldest_missed(app: "App") -> datetime:
    """Return the oldest time that catch-up covers."""
    return app.clock.now() - timedelta(hours=app.settings.catch_up_hours)


def to_mark(moment: datetime) -> str:
    """Return a time as a mark."""
    return f"{moment.timestamp():.6f}"
