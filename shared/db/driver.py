"""Runs SQLAlchemy statements directly on asyncpg, without a session.

A turn runs a dozen statements, and each takes a third of the time that it takes through SQLAlchemy's session. Every
statement is compiled once.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import lru_cache
from typing import Any, Protocol, cast

import asyncpg
from sqlalchemy import ClauseElement, Executable
from sqlalchemy.dialects.postgresql.asyncpg import dialect
from sqlalchemy.sql.compiler import SQLCompiler

from shared.db.connections import VERIFICATION, prepare
from shared.db.errors import is_stale
from shared.db.hosts import Servers

# How long one waits for a connection, and for the end of its last statement after a cancellation.
WAIT_SECONDS, RELEASE_SECONDS = 15.0, 2.0
DIALECT = dialect()  # type: ignore[no-untyped-call]  # untyped in SQLAlchemy


def to_sql(statement: ClauseElement) -> str:
    """Return a statement for a connection of asyncpg's own, with its parameters as $1 and so on, in order."""
    return str(statement.compile(dialect=DIALECT))


class Rows(Protocol):
    """The rows of a result; a subset of SQLAlchemy's `Result`."""

    def all(self) -> Sequence[Any]:
        """Return all rows."""
        ...

    def one(self) -> Any:
        """Return the only row; raises unless there is exactly one."""
        ...

    def one_or_none(self) -> Any:
        """Return the only row, None when there is none; raises when there are several."""
        ...

    def scalar_one(self) -> Any:
        """Return the first value of the only row."""
        ...


class Session(Protocol):
    """Anything that runs statements: an `AsyncSession` in its transaction, or a `Connection`."""

    async def execute(self, statement: Executable, params: Mapping[str, Any] | None = None, /) -> Rows:
        """Run a statement with its named parameters."""
        ...


class Row(asyncpg.Record):  # type: ignore[misc]  # asyncpg is not typed
    """A row with its columns as attributes."""

    def __getattr__(self, name: str) -> Any:
        """Return the column's value."""
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class _Rows:
    __slots__ = ("_rows",)

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def all(self) -> list[Any]:
        return self._rows

    def one(self) -> Any:
        if len(self._rows) != 1:
            raise LookupError(f"one row was expected, there are {len(self._rows)}")
        return self._rows[0]

    def one_or_none(self) -> Any:
        return self.one() if self._rows else None

    def scalar_one(self) -> Any:
        return self.one()[0]


class Connection:
    """A pooled connection in autocommit mode."""

    __slots__ = ("_driver",)

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    async def execute(self, statement: Executable, params: Mapping[str, Any] | None = None, /) -> Rows:
        """Run a statement with its named parameters; JSON parameters are strings, JSON results are parsed."""
        sql, names, constants = _compile(statement)
        values = {**constants, **(params or {})}
        return _Rows(await self._driver.fetch(sql, *[values[name] for name in names], record_class=Row))


class Pool:
    """A pool of asyncpg connections, opened on demand."""

    def __init__(self, connect: Callable[[], Awaitable[asyncpg.Connection]], size: int, servers: Servers) -> None:
        self._connect, self._size = connect, size
        self._servers, self._moves = servers, servers.moves
        self._pool: asyncpg.Pool | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Acquire a connection for the block."""
        async with self._acquired() as driver:
            yield Connection(driver)

    @asynccontextmanager
    async def _acquired(self) -> AsyncIterator[Any]:
        if self._pool is None:
            # Created here because a pool belongs to the running event loop. With min_size=0 it does not connect yet.
            self._pool = await asyncpg.create_pool(
                min_size=0,
                max_size=self._size,
                max_inactive_connection_lifetime=0,
                connect=self._open,
                reset=_skip_reset,
            )
        pool = self._pool
        if self._moves != self._servers.moves:
            # The server at their other end was left behind.
            self._moves = self._servers.moves
            await pool.expire_connections()
        driver = await pool.acquire(timeout=WAIT_SECONDS)
        try:
            yield driver
        except (TimeoutError, asyncpg.InternalClientError) as error:
            # The server is silent, or asyncpg's protocol state is broken, which can happen when the server ends the
            # connection. Where one is silent, the others are.
            driver.terminate()
            if isinstance(error, TimeoutError):
                await pool.expire_connections()
            raise
        except asyncpg.PostgresError as error:
            if is_stale(error):
                # The others were opened before the same change.
                await pool.expire_connections()
            raise
        finally:
            # After a cancellation asyncpg waits for the server, which may be silent.
            with suppress(TimeoutError):
                await pool.release(driver, timeout=RELEASE_SECONDS)

    async def verify(self) -> None:
        """Verify that a connection still is what Parley relies on."""
        async with self._acquired() as driver:
            await prepare(driver, VERIFICATION)

    async def warm(self, use: Callable[[Connection], Awaitable[object]]) -> None:
        """Open all connections but one, and use each of them once; that one is left for others meanwhile."""
        async with AsyncExitStack() as stack:
            for _ in range(self._size - 1):
                await use(await stack.enter_async_context(self.connection()))

    async def close(self) -> None:
        """Close all connections."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            try:
                await asyncio.wait_for(pool.close(), RELEASE_SECONDS)
            except TimeoutError:
                pool.terminate()

    async def _open(self, *_arguments: Any, **_options: Any) -> asyncpg.Connection:
        driver = await self._connect()
        await driver.set_type_codec("jsonb", schema="pg_catalog", encoder=str, decoder=json.loads)
        await driver.set_type_codec("json", schema="pg_catalog", encoder=str, decoder=json.loads)
        return driver


async def _skip_reset(_driver: Any) -> None:
    # Single statements leave no state behind, and asyncpg's RESET would be another round trip.
    return None


@lru_cache(maxsize=512)
def _compile(statement: Executable) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    compiled = cast(SQLCompiler, cast(ClauseElement, statement).compile(dialect=DIALECT))
    names = tuple(compiled.positiontup or ())
    constants = {name: compiled.binds[name].value for name in names if not compiled.binds[name].required}
    return str(compiled), names, constants
