"""The one pool of a process: each connection serves single statements by its driver, and transactions by SQLAlchemy."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import asyncpg
from sqlalchemy import NullPool, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine

from shared.db.driver import Connection, close_connection, to_clause
from shared.db.errors import is_broken, is_stale
from shared.db.hosts import Servers

# How long one waits for a connection.
WAIT_SECONDS = 15.0

# Errors that the server reports, as SQLAlchemy and as asyncpg raise them.
REFUSED = (DBAPIError, asyncpg.PostgresError)

Opening = Callable[[], Awaitable[asyncpg.Connection]]


@dataclass(frozen=True, slots=True)
class Member:
    """A connection to the server as SQLAlchemy holds it, and the driver's connection below it.

    `age` counts the changes after which all earlier ones are useless, and the moves to another server.
    """

    connection: AsyncConnection
    driver: asyncpg.Connection
    age: tuple[int, int]

    @property
    def is_usable(self) -> bool:
        """Whether it is open, and in no transaction that could not be ended."""
        return not (self.driver.is_closed() or self.connection.invalidated or self.driver.is_in_transaction())


class Pool:
    """Connections that are opened on demand, at most `size`; the most recently used one is used again first.

    With `is_shared` a pooler stands before the server and may give each transaction another session.
    """

    def __init__(self, opening: Opening, size: int, servers: Servers, *, is_shared: bool = False) -> None:
        self.engine = create_engine(opening, is_shared=is_shared)
        self._room = asyncio.Semaphore(size)
        self._size = size
        self._servers = servers
        self._changes = 0
        self._idle: list[Member] = []

    @asynccontextmanager
    async def member(self) -> AsyncIterator[Member]:
        """Take a connection for the block."""
        async with self._place():
            member = await self._take()
            try:
                yield member
            except (TimeoutError, asyncpg.PostgresError, SQLAlchemyError) as error:
                # The others were opened before the same change, and where one is silent, the others are.
                if is_stale(error) or (isinstance(error, TimeoutError) and not member.is_usable):
                    self._changes += 1
                raise
            finally:
                await self._give_back(member)

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
                await use(Connection(member.driver))

    def renew(self) -> None:
        """Use none of the connections again."""
        self._changes += 1

    async def close(self) -> None:
        """Close the connections; those in use are closed when they are given back."""
        self.renew()
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
        connection = await self.engine.connect()
        raw = await connection.get_raw_connection()
        # Opening may have moved to another server.
        return Member(connection, raw.driver_connection, (changes, self._servers.moves))

    async def _give_back(self, member: Member) -> None:
        if member.is_usable and member.age == (self._changes, self._servers.moves):
            self._idle.append(member)
            return
        if not member.is_usable:
            member.driver.terminate()
        await close_member(member)


class TextSession(AsyncSession):
    """A session that runs our named statements as well as SQLAlchemy's own."""

    def execute(self, statement: Any, *args: Any, **options: Any) -> Any:
        """Execute a statement as `AsyncSession` does."""
        return super().execute(to_clause(statement), *args, **options)

    def scalar(self, statement: Any, *args: Any, **options: Any) -> Any:
        """Return the first value of a statement as `AsyncSession` does."""
        return super().scalar(to_clause(statement), *args, **options)

    def scalars(self, statement: Any, *args: Any, **options: Any) -> Any:
        """Return the first values of a statement's rows as `AsyncSession` does."""
        return super().scalars(to_clause(statement), *args, **options)


async def close_member(member: Member) -> None:
    """Close a connection; a server that is silent is not waited for."""
    await close_connection(member.driver)
    # What SQLAlchemy has of it; it may want to end a transaction that ended with the connection.
    with suppress(SQLAlchemyError, asyncpg.InterfaceError):
        await member.connection.close()


def create_engine(opening: Opening, *, is_shared: bool = False) -> AsyncEngine:
    """Return an engine that opens a connection each time, and keeps no statement prepared if sessions are shared."""
    options = {"prepared_statement_cache_size": 0, "prepared_statement_name_func": str} if is_shared else {}

    def create() -> object:
        # As SQLAlchemy's `async_creator`, which takes no options.
        return engine.sync_engine.dialect.loaded_dbapi.connect(async_creator_fn=opening, **options)

    # Parameters contain message text, which must not be logged.
    engine = create_async_engine("postgresql+asyncpg://", creator=create, hide_parameters=True, poolclass=NullPool)
    event.listen(engine.sync_engine, "handle_error", _replace_useless_connections)
    return engine


def _replace_useless_connections(context: ExceptionContext) -> None:
    error = context.original_exception
    if is_stale(error) or is_broken(error) or isinstance(error, TimeoutError):
        context.is_disconnect = True
