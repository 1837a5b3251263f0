"""The database of a command that runs a few statements: one connection, without a pool and without SQLAlchemy."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Protocol

import asyncpg

from shared.db.connections import LONG_STATEMENT_SECONDS, STATEMENT_SECONDS
from shared.db.database import Address, raise_database_lost
from shared.db.driver import Connection, Session, close_connection, read_json
from shared.db.errors import is_stale
from shared.db.history import Witness


class SessionSource(Protocol):
    """Opens sessions: for single statements, and such as listen. `Database`, or the one below."""

    address: Address

    @property
    def witness(self) -> Witness:
        """Return what this process has seen committed."""
        ...

    def statement(self) -> AbstractAsyncContextManager[Connection]:
        """Open a connection in autocommit mode; raises `DatabaseLost`."""
        ...

    async def connect(self, *, statement_seconds: float = STATEMENT_SECONDS) -> asyncpg.Connection:
        """Open a connection that is a session: for `LISTEN`."""
        ...

    async def look(self, listening: asyncpg.Connection) -> None:
        """Look whether the connection that listens still is what Parley relies on; raises `UnfitDatabase`."""
        ...


class LongWork(Protocol):
    """Opens transactions, and such as may take long. `Database`, or the one below."""

    def transaction(self) -> AbstractAsyncContextManager[Session]:
        """Open a transaction; raises `DatabaseLost`."""
        ...

    def long_transaction(self) -> AbstractAsyncContextManager[Session]:
        """Open a transaction whose statements may take up to an hour; raises `DatabaseLost`."""
        ...


class SmallDatabase:
    """One connection, opened with the first statement and again after a loss; statements wait for each other."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connection: asyncpg.Connection | None = None
        # The moves to another server before the connection was opened.
        self._moves = 0
        self._in_turn = asyncio.Lock()

    @property
    def witness(self) -> Witness:
        """Return what this process has seen committed."""
        return self.address.servers.witness

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[Connection]:
        """Open the connection in autocommit mode; raises `DatabaseLost`."""
        async with self._taken() as connection:
            yield Connection(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Open a transaction: committed at the end of the block, rolled back on any exception.

        Raises `DatabaseLost` as that of `Database` does.
        """
        async with self._taken() as connection, _begun(connection):
            yield Connection(connection)

    @asynccontextmanager
    async def long_transaction(self) -> AsyncIterator[Connection]:
        """Open a transaction whose statements may take up to an hour, on a connection of its own."""
        with raise_database_lost():
            connection = await self._open(LONG_STATEMENT_SECONDS)
            try:
                async with _begun(connection):
                    yield Connection(connection)
            finally:
                await close_connection(connection)

    async def connect(self, *, statement_seconds: float = STATEMENT_SECONDS) -> asyncpg.Connection:
        """Open a connection beside this one."""
        return await self.address.connect(statement_seconds=statement_seconds)

    async def look(self, listening: asyncpg.Connection) -> None:
        """Look whether the server of the connection that listens still takes writes, and was not left behind."""
        await self.address.servers.look(listening, self.address.opener())

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await close_connection(self._connection)

    @asynccontextmanager
    async def _taken(self) -> AsyncIterator[asyncpg.Connection]:
        with raise_database_lost():
            async with self._in_turn:
                connection = await self._take()
                with _cut_when_useless(connection):
                    yield connection

    async def _take(self) -> asyncpg.Connection:
        if self._connection is not None and self._moves == self.address.servers.moves:
            if not self._connection.is_closed():
                return self._connection
        elif self._connection is not None:
            await close_connection(self._connection)
        connection, moves = await self._open(), self.address.servers.moves
        self._connection, self._moves = connection, moves
        return connection

    async def _open(self, statement_seconds: float = STATEMENT_SECONDS) -> asyncpg.Connection:
        connection = await self.connect(statement_seconds=statement_seconds)
        await read_json(connection)
        return connection


@asynccontextmanager
async def _begun(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """Hold a transaction for the block; where the connection was cut, its end would hide why."""
    is_done = False
    async with AsyncExitStack() as ending:
        await ending.enter_async_context(connection.transaction())
        try:
            yield
            is_done = True
        finally:
            if connection.is_closed() and not is_done:
                ending.pop_all()


@contextmanager
def _cut_when_useless(connection: asyncpg.Connection) -> Iterator[None]:
    try:
        yield
    except (asyncio.CancelledError, TimeoutError, asyncpg.PostgresError) as error:
        # A BEGIN may still take effect that was given up; and a server that is silent would not answer a farewell.
        if not isinstance(error, asyncpg.PostgresError) or is_stale(error):
            connection.terminate()
        raise
