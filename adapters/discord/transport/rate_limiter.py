"""One pace of REST requests for a token, over all processes that use it: kept in Postgres.

Discord allows 50 requests a second. Each request takes the next free place in a row of places, and waits for it.
"""

import asyncio
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from aiohttp import TraceConfig
from sqlalchemy import text

from adapters.chat.checkpoint import BotAccount
from shared.db.database import Database, DatabaseLost
from shared.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator

# In any second at most RATE + BURST = 44 requests begin.
RATE, BURST = 40, 4
SPACING = 1 / RATE
# Discord bans who makes 10,000 invalid requests in ten minutes.
INVALID_TOLD_EVERY = 100

TAKE = text("""
UPDATE bots SET next_request_at = greatest(next_request_at, clock_timestamp()) + :spacing * interval '1 second'
WHERE id = :bot_id
RETURNING extract(epoch FROM next_request_at - clock_timestamp())
""")
TAKE_SPARE = text("""
UPDATE bots SET next_request_at = clock_timestamp() + :spacing * interval '1 second'
WHERE id = :bot_id AND next_request_at <= clock_timestamp() RETURNING id
""")

log = get_logger()
_manner: ContextVar[str] = ContextVar("manner", default="waits")


class RateLimiter:
    """The row of places of one token."""

    def __init__(self, database: Database, token: str) -> None:
        self._database = database
        self.bot = BotAccount(database, "discord", token)
        self._invalid = 0

    async def take(self) -> None:
        """Take the next place and wait for it."""
        try:
            given = {"bot_id": await self.bot.find_id(), "spacing": SPACING}
            async with self._database.statement() as session:
                wait = float((await session.execute(TAKE, given)).scalar_one()) - BURST * SPACING
        except DatabaseLost:
            # Nobody can be asked; one process alone stays far below the limit like this.
            wait = 1 / 10
        if wait > 0 and _manner.get() == "waits":
            await asyncio.sleep(wait)

    async def has_spare(self) -> bool:
        """Take a place if nobody waits for one, for what may as well be left out."""
        try:
            given = {"bot_id": await self.bot.find_id(), "spacing": SPACING}
            async with self._database.statement() as session:
                return (await session.execute(TAKE_SPARE, given)).one_or_none() is not None
        except DatabaseLost:
            return False

    def trace(self) -> TraceConfig:
        """Return what the library's HTTP session calls around each request, repeated ones included."""
        trace = TraceConfig()
        trace.on_request_start.append(self._on_start)
        trace.on_request_end.append(self._on_end)
        return trace

    async def _on_start(self, _session: object, _context: object, params: Any) -> None:
        if params.url.scheme in ("http", "https") and _manner.get() != "paid":
            await self.take()

    async def _on_end(self, _session: object, _context: object, params: Any) -> None:
        if params.response.status not in (401, 403, 429):
            return
        self._invalid += 1
        if self._invalid % INVALID_TOLD_EVERY == 1:
            log.warning("discord_invalid_requests", count=self._invalid, status=params.response.status)


@contextmanager
def at_once() -> "Iterator[None]":
    """Let requests in the block go without waiting: they must be answered in 3 s, and count all the same."""
    token = _manner.set("hurries")
    try:
        yield
    finally:
        _manner.reset(token)


@contextmanager
def paid() -> "Iterator[None]":
    """Let the request in the block go on a place that was taken for it."""
    token = _manner.set("paid")
    try:
        yield
    finally:
        _manner.reset(token)
