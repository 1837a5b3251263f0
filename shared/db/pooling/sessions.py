"""SQLAlchemy's sessions on the driver's connections.

It takes a fifth of a second to import, and one answer needs no session: this file is imported with the first one.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import asyncpg
from sqlalchemy import (
    BigInteger,
    Connection,
    DateTime,
    Executable,
    Float,
    Integer,
    NullPool,
    Text,
    bindparam,
    event,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.types import TypeEngine

from shared.db.errors import is_broken, is_stale
from shared.db.statements import Statement

Opening = Callable[[], Awaitable[asyncpg.Connection]]


# The types of parameters that Postgres can't know, by their names there.
TYPES: Mapping[str, TypeEngine[Any]] = {
    "bigint": BigInteger(),
    "integer": Integer(),
    "double precision": Float(53),
    "text": Text(),
    "timestamptz": DateTime(timezone=True),
    "jsonb": JSONB(),
    "bigint[]": ARRAY(BigInteger()),
    "integer[]": ARRAY(Integer()),
    "double precision[]": ARRAY(Float(53)),
    "text[]": ARRAY(Text()),
}


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


def to_clause(statement: Executable) -> Executable:
    """Return a statement as SQLAlchemy takes it."""
    if not isinstance(statement, Statement):
        return statement
    if statement.clause is None:
        sql = statement.text
        parameters = (bindparam(name, type_=TYPES[type_]) for name, type_ in statement.types.items())
        statement.clause = text(sql).bindparams(*parameters)
    return statement.clause


class Sessions:
    """Opens sessions on connections that are open already; with `is_shared` no statement stays prepared."""

    def __init__(self, *, is_shared: bool) -> None:
        self.open = async_sessionmaker(class_=TextSession, expire_on_commit=False)
        self._engine = create_engine(self._take_driver, is_shared=is_shared)
        self._driver: asyncpg.Connection | None = None

    async def attach(self, driver: asyncpg.Connection) -> AsyncConnection:
        """Return a connection of the driver as SQLAlchemy has it."""
        # The engine takes it before it waits for anything, and so before another task gets here.
        self._driver = driver
        connection = await self._engine.connect()
        # The pool that has the driver ends it; SQLAlchemy's would complain of each that is not given back to it.
        await connection.run_sync(Connection.detach)
        return connection

    async def _take_driver(self) -> asyncpg.Connection:
        return self._driver


async def close_attached(connection: AsyncConnection) -> None:
    """Close what SQLAlchemy has of a connection that is closed."""
    # It may want to end a transaction that ended with the connection.
    with suppress(SQLAlchemyError, asyncpg.InterfaceError):
        await connection.close()


def create_sessions(opening: Opening) -> async_sessionmaker[AsyncSession]:
    """Return what opens sessions, each on a connection of its own."""
    return async_sessionmaker(create_engine(opening), class_=TextSession, expire_on_commit=False)


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
