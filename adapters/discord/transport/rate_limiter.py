"""The rate limit of REST requests of one token, shared by all processes: kept in Postgres.

Discord allows 50 requests a second. Each request reserves the next free slot and waits for it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from aiohttp import TraceConfig
from sqlalchemy import text

from adapters.chat.checkpoint import BotAccount
from shared.db.database import Database, DatabaseLost
from shared.errors import Unavailable
from shared.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator

# In any second at most RATE + BURST = 44 requests begin.
RATE, BURST = 40, 4
SPACING = 1 / RATE
# No request waits longer for its slot.
LONGEST_SECONDS = 120
# Requests in the background leave half of the slots free, and wait for a free one so many times.
BACKGROUND_SPACING, MOST_YIELDS = 2 / RATE, 100
# Discord bans clients that make 10,000 invalid requests in ten minutes.
INVALID_LOGGED_EVERY = 100

RESERVE_SLOT = text("""
UPDATE bots SET next_request_at = :spacing * interval '1 second' + CASE
    -- No queue is that long: the database's clock was set back since.
    WHEN next_request_at > clock_timestamp() + :longest * interval '1 second' THEN clock_timestamp()
    ELSE greatest(next_request_at, clock_timestamp())
END
WHERE id = :bot_id
RETURNING extract(epoch FROM next_request_at - clock_timestamp())
""")
RESERVE_FREE_SLOT = text("""
UPDATE bots SET next_request_at = clock_timestamp() + :spacing * interval '1 second'
WHERE id = :bot_id
  AND next_request_at NOT BETWEEN clock_timestamp() AND clock_timestamp() + :longest * interval '1 second'
RETURNING id
""")

log = get_logger()
_manner: ContextVar[str] = ContextVar("manner", default="waits")
_check: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("check", default=None)
_is_unrepeated: ContextVar[bool] = ContextVar("is_unrepeated", default=False)


class RateLimiter:
    """The slots of one token."""

    def __init__(self, database: Database, token: str) -> None:
        self._database = database
        self.bot = BotAccount(database, "discord", token)
        self._invalid = 0

    async def wait(self) -> None:
        """Reserve the next slot and wait for it; in the background, first wait for one that nobody else wants."""
        if _manner.get() == "yields":
            for _ in range(MOST_YIELDS):
                await asyncio.sleep(BACKGROUND_SPACING)
                if await self.has_spare():
                    return
        try:
            given = {"bot_id": await self.bot.find_id(), "spacing": SPACING, "longest": LONGEST_SECONDS}
            async with self._database.statement() as session:
                seconds = float((await session.execute(RESERVE_SLOT, given)).scalar_one()) - BURST * SPACING
        except DatabaseLost:
            # Without the database the limit can't be shared; one process alone stays far below it.
            seconds = 1 / 10
        if seconds > 0 and _manner.get() != "hurries":
            await asyncio.sleep(seconds)

    async def has_spare(self) -> bool:
        """Reserve a slot only if no request waits for one: for optional requests."""
        try:
            given = {"bot_id": await self.bot.find_id(), "spacing": SPACING, "longest": LONGEST_SECONDS}
            async with self._database.statement() as session:
                return (await session.execute(RESERVE_FREE_SLOT, given)).one_or_none() is not None
        except DatabaseLost:
            return False

    def trace(self) -> TraceConfig:
        """Return the trace hooks that count and delay each request of the library, its retries included."""
        trace = TraceConfig()
        trace.on_request_start.append(self._on_start)
        trace.on_request_end.append(self._on_end)
        return trace

    async def _on_start(self, _session: object, _context: object, params: Any) -> None:
        if params.url.scheme in ("http", "https") and _manner.get() != "paid":
            await self.wait()
        if (check := _check.get()) is not None:
            await check()

    async def _on_end(self, _session: object, _context: object, params: Any) -> None:
        if params.response.status >= 500 and _is_unrepeated.get():
            params.response.close()
            raise Unavailable("Discord can't take this just now.")
        if params.response.status not in (401, 403, 429):
            return
        self._invalid += 1
        if self._invalid % INVALID_LOGGED_EVERY == 1:
            log.warning("discord_invalid_requests", count=self._invalid, status=params.response.status)


@contextmanager
def at_once() -> "Iterator[None]":
    """Send the requests in the block without waiting, but count them: interactions must be answered within 3 s."""
    token = _manner.set("hurries")
    try:
        yield
    finally:
        _manner.reset(token)


@contextmanager
def in_background() -> "Iterator[None]":
    """Send the requests in the block at a pace of their own, in slots that no other request wants."""
    token = _manner.set("yields")
    try:
        yield
    finally:
        _manner.reset(token)


@contextmanager
def checked(check: Callable[[], Awaitable[None]]) -> "Iterator[None]":
    """Await `check` just before each request in the block is sent, its repetitions included; it raises to stop them."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


@contextmanager
def unrepeated() -> "Iterator[None]":
    """Send the requests in the block once: the library repeats them after errors of Discord, which may have acted."""
    token = _is_unrepeated.set(True)
    try:
        yield
    finally:
        _is_unrepeated.reset(token)


@contextmanager
def paid() -> "Iterator[None]":
    """Send the request in the block in a slot that is reserved already."""
    token = _manner.set("paid")
    try:
        yield
    finally:
        _manner.reset(token)
