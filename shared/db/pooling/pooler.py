"""Connections through a pooler that may give each transaction another session of the server.

PgBouncer does so in transaction mode. Whatever a session has, another client of the pooler may have left there:
settings, a role, temporary tables, prepared statements. So each transaction sets what it relies on itself, in the round
trip of its BEGIN, by commands that nothing in a session can redefine, and each statement is sent anew, without a name.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import asyncpg
from msgspec import Struct

from shared.db.connections import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    POOLING,
    SETTINGS,
    STATEMENT_SECONDS,
    NoDatabase,
    UnfitDatabase,
    hearing,
)
from shared.db.driver import to_sql
from shared.db.errors import is_lost
from shared.db.history import History
from shared.db.statements import load_statements
from shared.errors import ConfigurationError

statements = load_statements(__file__)

# What a session of our own has by the configuration of server, database and login. A pooler's session begins with what
# its first client named, and a client may name these.
OF_THE_SERVER = ("DateStyle", "IntervalStyle", "TimeZone", "standard_conforming_strings")
# The pooler's own connections are not for us to say.
OF_THE_NETWORK = "tcp_"
APART = "DATABASE_URL and DATABASE_DIRECT_URL lead to different databases; name the same one in both."
NO_TRANSACTIONS = (
    "DATABASE_URL leads to a pooler without transactions ({cause}); set pool_mode = transaction for this database in "
    "PgBouncer."
)
COMMIT = "COMMIT"
# After these the server has answered, so that a transaction can be ended.
ANSWERED = (asyncpg.PostgresError, asyncpg.InterfaceError)


class Beginning(Struct, frozen=True):
    """How transactions begin: with the settings, and with a check that the server still is in this history."""

    settings: str
    history_check: str
    history: History | None


class SharedConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg is not typed
    """A connection on which nothing outlives a transaction; a statement outside of one is a transaction."""

    beginning: Beginning

    def transaction(self, *, in_any_history: bool = False, **_options: object) -> "SharedTransaction":
        """Return a transaction that sets all that it relies on; it is read committed and may write.

        Unless it may be `in_any_history`, it is refused where the pooler has followed a failover before this process.
        """
        check = "" if in_any_history else self.beginning.history_check
        return SharedTransaction(self, self.beginning.settings + check)

    async def fetch(self, query: str, *arguments: Any, **options: Any) -> list[Any]:
        """Run a statement, in a transaction of its own if none is open."""
        if self.is_in_transaction():
            return await super().fetch(query, *arguments, **options)  # type: ignore[no-any-return]
        async with self.transaction():
            return await super().fetch(query, *arguments, **options)  # type: ignore[no-any-return]


class SharedTransaction:
    """A transaction on a `SharedConnection`, with the methods of asyncpg's own."""

    def __init__(self, connection: SharedConnection, beginning: str) -> None:
        self._connection, self._beginning = connection, beginning

    async def start(self) -> None:
        """Begin it, with the settings."""
        try:
            await self._connection.execute(self._beginning)
        except asyncpg.PostgresError:
            await self.rollback()
            raise

    async def commit(self) -> None:
        """Commit it."""
        await self._connection.execute(COMMIT)

    async def rollback(self) -> None:
        """Roll it back, unless the connection is gone and the transaction with it."""
        if self._connection.is_in_transaction():
            await self._connection.execute("ROLLBACK")

    async def __aenter__(self) -> None:
        await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, _error: object, _traceback: object) -> None:
        if kind is None:
            await self._connection.execute(COMMIT)
        elif issubclass(kind, ANSWERED):
            await self.rollback()
        else:
            # Cancelled, or without an answer: the pooler ends the session, and nothing waits for a silent one.
            self._connection.terminate()


async def connect_shared(arguments: Mapping[str, Any], beginning: Beginning) -> SharedConnection:
    """Open a connection whose transactions begin with `beginning`."""
    connection: SharedConnection = await asyncpg.connect(
        timeout=CONNECT_SECONDS,
        command_timeout=STATEMENT_SECONDS + ANSWER_SECONDS,
        connection_class=SharedConnection,
        statement_cache_size=0,
        **arguments,
    )
    connection.beginning = beginning
    return connection


async def write_beginning(connection: asyncpg.Connection, role: str, history: History | None) -> Beginning:
    """Return how each transaction of this role begins, with the settings of this connection, which acts as it.

    `history` is that of its server, None where that tells none, or the tables are not made yet.
    """
    own = [name for name in SETTINGS if not name.startswith(OF_THE_NETWORK)]
    names = [*OF_THE_SERVER, *own, "statement_timeout"]
    noted = (None, None, None) if history is None else (history.id, history.created_at, history.timeline)
    settings, check = await connection.fetchrow(to_sql(statements.write_beginning), role, names, *noted)
    return Beginning(settings, check if history else "", history)


async def examine_shared(shared: SharedConnection, direct: asyncpg.Connection) -> None:
    """Verify that transactions are possible, and that both connections lead to one database.

    Raises `UnfitDatabase` with the remedy.
    """
    try:
        async with hearing(direct) as (channel, heard):
            async with shared.transaction(in_any_history=True):
                await shared.fetch("SELECT pg_catalog.pg_notify($1, '')", channel)
            if not await heard():
                raise UnfitDatabase(APART)
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        cause = str(error).partition("\n")[0]
        raise (UnfitDatabase(NO_TRANSACTIONS.format(cause=cause)) if POOLING in cause else error) from None


async def check_pooler(direct: asyncpg.Connection, open_shared: Callable[[], Awaitable[SharedConnection]]) -> None:
    """Verify that what opens connections through a pooler can be used; raises `ConfigurationError`.

    The connection to the server itself is closed.
    """
    try:
        shared = await open_shared()
        try:
            await examine_shared(shared, direct)
        finally:
            shared.terminate()
    except (OSError, TimeoutError, asyncpg.PostgresError, ValueError) as error:
        kind = NoDatabase if is_lost(error) else ConfigurationError
        raise kind(f"DATABASE_URL: the pooler can't be used ({error or type(error).__name__}).") from None
    finally:
        direct.terminate()
