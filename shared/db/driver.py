"""Runs SQLAlchemy statements directly on asyncpg, without a session.

A turn runs a dozen statements, and each takes a third of the time that it takes through SQLAlchemy's session. Every
statement is compiled once.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, cast

import asyncpg

from shared.db.statements import Statement

if TYPE_CHECKING:
    from sqlalchemy import Executable
    from sqlalchemy.sql.compiler import SQLCompiler


# How long one waits for the end of a connection that is closed.
CLOSE_SECONDS = 2.0


def to_sql(statement: "Executable") -> str:
    """Return a statement for a connection of asyncpg's own, with its parameters as $1 and so on, in order."""
    return _compile(statement)[0]


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

    def scalar_one_or_none(self) -> Any:
        """Return the first value of the only row, None when there is none."""
        ...

    def scalars(self) -> Iterable[Any]:
        """Return the first value of each row."""
        ...


class Session(Protocol):
    """Anything that runs statements: an `AsyncSession` in its transaction, or a `Connection`."""

    async def execute(self, statement: "Executable", params: Mapping[str, Any] | None = None, /) -> Rows:
        """Run a statement with its named parameters."""
        ...


class NestingSession(Session, Protocol):
    """A session in a transaction that can hold savepoints."""

    def begin_nested(self) -> AbstractAsyncContextManager[Any]:
        """Open a savepoint: an exception takes back what the block has written."""
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

    def scalar_one_or_none(self) -> Any:
        return self.one()[0] if self._rows else None

    def scalars(self) -> list[Any]:
        return [row[0] for row in self._rows]


class Connection:
    """A pooled connection in autocommit mode."""

    __slots__ = ("_driver",)

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    async def execute(self, statement: "Executable", params: Mapping[str, Any] | None = None, /) -> Rows:
        """Run a statement with its named parameters; JSON parameters are strings, JSON results are parsed."""
        sql, names, constants = _compile(statement)
        values = {**constants, **(params or {})}
        try:
            return _Rows(await self._driver.fetch(sql, *[values[name] for name in names], record_class=Row))
        except (TimeoutError, asyncio.CancelledError, asyncpg.InternalClientError):
            # The statement may still run, the server may be silent, or asyncpg's protocol state is broken, which can
            # happen when the server ends the connection.
            self._driver.terminate()
            raise

    def begin_nested(self) -> Any:
        """Open a savepoint in the transaction, as one of asyncpg's own; see `NestingSession`."""
        return self._driver.transaction()


async def read_json(connection: asyncpg.Connection) -> None:
    """Have a new connection take JSON as strings and parse what it returns; it is cut if that fails."""
    with ExitStack() as closing:
        # It would give other values to the next statement.
        closing.callback(connection.terminate)
        for name in ("json", "jsonb"):
            await connection.set_type_codec(name, schema="pg_catalog", encoder=str, decoder=json.loads)
        closing.pop_all()


async def close_connection(connection: asyncpg.Connection) -> None:
    """Close a connection; a server that is silent is not waited for."""
    try:
        await connection.close(timeout=CLOSE_SECONDS)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()


@lru_cache(maxsize=512)
def _compile(statement: "Executable") -> tuple[str, tuple[str, ...], dict[str, Any]]:
    if isinstance(statement, Statement):
        return statement.numbered, statement.names, {}
    # Where tables of SQLAlchemy are named, it is imported.
    from sqlalchemy.dialects.postgresql.asyncpg import dialect

    compiled = cast("SQLCompiler", cast(Any, statement).compile(dialect=cast(Any, dialect)()))
    names = tuple(compiled.positiontup or ())
    constants = {name: compiled.binds[name].value for name in names if not compiled.binds[name].required}
    return str(compiled), names, constants
