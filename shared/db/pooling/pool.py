"""The one pool of a process: each connection serves single statements by its driver, and transactions by SQLAlchemy."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import asyncpg
from msgspec import Struct

from shared.db.driver import Connection, close_connection, read_json
from shared.db.errors import is_stale, server_errors
from shared.db.hosts import Servers

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

    from shared.db.pooling.sessions import Sessions

# How long one waits for a connection.
WAIT_SECONDS = 15.0

Opening = Callable[[], Awaitable[asyncpg.Connection]]


class Member(Struct):
    """The driver's connection to the server, and what SQLAlchemy has of it, once it had a transaction there.

    `age` counts the changes after which all earlier ones are useless, and the moves to another server.
    """

    driver: asyncpg.Connection
    age: tuple[int, int]
    connection: "AsyncConnection | None" = None

    @property
    def is_usable(self) -> bool:
        """Whether it is open, and in no transaction that could not be ended."""
        is_invalid = self.connection is not None and self.connection.invalidated
        return not (self.driver.is_closed() or is_invalid or self.driver.is_in_transaction())


class Pool:
    """Connections that are opened on demand, at most `size`; the most recently used one is used again first.

    With `is_shared` a pooler stands before the server and may give each transaction another session.
    """

    def __init__(self, opening: Opening, size: int, servers: Servers, *, is_shared: bool = False) -> None:
        self._opening, self._is_shared = opening, is_shared
        self._room = asyncio.Semaphore(size)
        self._size = size
        self._servers = servers
        self._changes = 0
        self._is_closed = False
        self._idle: list[Member] = []

    @asynccontextmanager
    async def member(self) -> AsyncIterator[Member]:
        """Take a connection for the block."""
        async with self._place():
            member = await self._take()
            try:
                yield member
            except (asyncio.CancelledError, TimeoutError) as error:
                # A BEGIN may still take effect that was given up, and what the next one writes would be lost with it.
                member.driver.terminate()
                # Where one is silent, the others are.
                self._changes += isinstance(error, TimeoutError)
                raise
            except (*server_errors(), asyncpg.InterfaceError) as error:
                # The others were opened before the same change.
                self._changes += is_stale(error)
                raise
            finally:
                await self._give_back(member)

    @asynccontextmanager
    async def session(self) -> AsyncIterator["AsyncSession"]:
        """Open a session of SQLAlchemy for the block."""
        async with self.member() as member, self._sessions.open(bind=await self._attach(member)) as session:
            yield session

    @asynccontextmanager
    async def gap(self) -> AsyncIterator[None]:
        """Have one connection less for the block, for one that is opened elsewhere."""
        async with self._place():
            if self._idle:
                await close_member(self._idle.pop(0))
            yield

    async def warm(self, use: Callable[[Connection], Awaitable[object]]) -> None:
        """Open all connections but one, and use each of them once; that one is left for others meanwhile."""
        async with AsyncExitStack() as stack:
            for _ in range(self._size - 1):
                member = await stack.enter_async_context(self.member())
                # Attached later, it would forget what it has planned.
                _ = await self._attach(member)
                await use(Connection(member.driver))

    def renew(self) -> None:
        """Use none of the connections again."""
        self._changes += 1

    async def close(self) -> None:
        """Close the connections; those in use, and those that others wait for, are closed when they are given back."""
        self._is_closed = True
        idle, self._idle = self._idle, []
        await asyncio.gather(*map(close_member, idle))

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        if self._room.locked():
            async with asyncio.timeout(WAIT_SECONDS):
                await self._room.acquire()
        else:
            await self._room.acquire()
        try:
            yield
        finally:
            self._room.release()

    async def _take(self) -> Member:
        while self._idle:
            member = self._idle.pop()
            if member.is_usable and member.age == (self._changes, self._servers.moves):
                return member
            await close_member(member)
        changes = self._changes
        driver = await self._opening()
        await read_json(driver)
        # Opening may have moved to another server.
        return Member(driver, (changes, self._servers.moves))

    @cached_property
    def _sessions(self) -> "Sessions":
        # Imported here: it takes a fifth of a second, and one answer needs no session.
        from shared.db.pooling.sessions import Sessions

        return Sessions(is_shared=self._is_shared)

    async def _attach(self, member: Member) -> "AsyncConnection":
        if member.connection is None:
            member.connection = await self._sessions.attach(member.driver)
        return member.connection

    async def _give_back(self, member: Member) -> None:
        if not self._is_closed and member.is_usable and member.age == (self._changes, self._servers.moves):
            self._idle.append(member)
            return
        if not member.is_usable:
            member.driver.terminate()
        await close_member(member)


async def close_member(member: Member) -> None:
    """Close a connection; a server that is silent is not waited for."""
    try:
        await close_connection(member.driver)
    finally:
        if member.connection is not None:
            # Imported here: SQLAlchemy is, then.
            from shared.db.pooling.sessions import close_attached

            # Also where that was cancelled, or it would complain when it is forgotten.
            await close_attached(member.connection)
