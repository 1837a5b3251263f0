"""What every connection sets and verifies when it is opened, whichever driver opens it, and what stands behind it."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
from msgspec import Struct

from shared.errors import ConfigurationError, Unavailable

# With the process id, it tells an operator which process holds a connection.
PROGRAM_NAME = "parley"
# A network that drops packets tells nobody: whatever asks the database gives up after these times.
CONNECT_SECONDS = 5.0
# The server ends a statement first, with an error that says so; maintenance names a limit of its own.
STATEMENT_SECONDS, LONG_STATEMENT_SECONDS = 9.0, 3600.0
ANSWER_SECONDS = 1.0
# After what time the system gives up a connection whose packets are not acknowledged, and asks one that is silent.
UNACKNOWLEDGED_SECONDS, IDLE_SECONDS, PROBE_SECONDS, PROBES = 6, 5, 2, 3
# How long the other side of a pooler has to pass a notification on.
NOTIFICATION_SECONDS = 10.0

SETTINGS = {
    "client_encoding": "UTF8",
    # Statements are few, short and indexed: to compile one, or to plan it for each run, takes longer than to run it.
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "row_security": "on",
    # A worker that hangs loses its locks at about the time when other workers take over its turns.
    "idle_in_transaction_session_timeout": "10s",
    # The server's side of a silent network: what a client that is gone has locked becomes free.
    "tcp_keepalives_idle": str(IDLE_SECONDS),
    "tcp_keepalives_interval": str(PROBE_SECONDS),
    "tcp_keepalives_count": str(PROBES),
    "tcp_user_timeout": str(UNACKNOWLEDGED_SECONDS * 1000),
}
# For psql, pg_dump and Alembic; what `DATABASE_URL` names itself goes before.
LIBPQ_PARAMETERS = {
    "connect_timeout": str(round(CONNECT_SECONDS)),
    "keepalives_idle": str(IDLE_SECONDS),
    "keepalives_interval": str(PROBE_SECONDS),
    "keepalives_count": str(PROBES),
    "tcp_user_timeout": str(UNACKNOWLEDGED_SECONDS * 1000),
}
SOCKET_OPTIONS = {
    "TCP_KEEPIDLE": IDLE_SECONDS,
    "TCP_KEEPINTVL": PROBE_SECONDS,
    "TCP_KEEPCNT": PROBES,
    "TCP_USER_TIMEOUT": UNACKNOWLEDGED_SECONDS * 1000,
}
VERIFICATION = (Path(__file__).parent / "connection.sql").read_text("utf-8")
# What whoever had the server's side of a pooler before may have left.
FORGET = "RESET ALL; DEALLOCATE ALL; UNLISTEN *"
NOT_VERIFIED, TAKES_NO_WRITES = "PY001", "PY002"
# A prepared statement that the session does not have, or has already; a transaction where statements are pooled.
OF_A_POOLER = ("26000", "42P05", "08P01")
MIN_VERSION = 15
# What PgBouncer says when it pools statements, and when all its connections are in use.
POOLING, NO_CONNECTION_LEFT = "pooling mode", "query_wait_timeout"
TOO_FEW = (
    "The pooler before the database has no connection left; raise default_pool_size there, in session mode to 6 or "
    "more for each process."
)
POOLED = "{setting} leads to a pooler that does not keep one session for each connection ({cause}); {remedy}."
# How each setting is put right.
REMEDIES = {
    "DATABASE_URL": "name the address of Postgres itself in DATABASE_DIRECT_URL, or set pool_mode = session for this "
    "database in PgBouncer",
    "DATABASE_DIRECT_URL": "name the address of Postgres itself there",
}
SESSION = "SELECT pg_backend_pid(), current_setting('role'), current_setting('plan_cache_mode')"
SERVER = """
SELECT current_setting('server_version'), coalesce(host(inet_server_addr()), 'a socket of its machine'),
       inet_server_port(), pg_backend_pid(),
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
"""


class UnfitDatabase(ConfigurationError):
    """The database does not keep what Parley relies on."""

    code = "unfit_database"


class ReadOnlyDatabase(UnfitDatabase):
    """The database takes no writes; a failover may be going on."""

    code = "read_only_database"


class NoDatabase(ConfigurationError):
    """No Postgres answers at the address; it may be starting, or the address may be wrong."""


class Server(Struct, frozen=True):
    """The server that answers, as it names itself; how many connections it takes; whether a pooler stands before it.

    With `has_sessions_apart`, statements go through a pooler that may share sessions, and what needs one does not.
    """

    version: str
    host: str
    port: int | None
    connections: int
    is_pooled: bool
    has_sessions_apart: bool = False

    def __str__(self) -> str:
        where = self.host if self.port is None else f"{self.host}:{self.port}"
        way = "through a pooler" if self.is_pooled or self.has_sessions_apart else "directly"
        return f"Postgres {self.version} at {where}, {way}{', sessions directly' if self.has_sessions_apart else ''}"


def build_setup(role: str | None, statement_seconds: float = STATEMENT_SECONDS, **more: str) -> str:
    """Return the statements for a new connection, for one round trip; without a role it stays what it logged in as.

    They raise `NOT_VERIFIED` with the cause and the remedy, or `TAKES_NO_WRITES`.
    """
    # What the owner does, it does for all persons; row-level security binds it otherwise.
    more = more if role else {"parley.rows": "all", **more}
    limit = {"statement_timeout": f"{round(statement_seconds * 1000)}ms"}
    # Now, because this process may be a fork of the one that has imported this.
    name = {"application_name": f"{PROGRAM_NAME}, process {os.getpid()}"}
    settings = {"role": role or "none", **SETTINGS, **name, **limit, **more}
    connection = json.dumps({"role": role or "none", "settings": settings}).replace("'", "''")
    return f"{FORGET}; SET parley.connection = '{connection}'; {VERIFICATION}"


def build_verification(role: str) -> str:
    """Return the statements that verify a transaction of this role that has set all it needs."""
    connection = json.dumps({"role": role, "settings": {}})
    return f"SET LOCAL parley.connection = '{connection}'; {VERIFICATION}"


async def connect(
    arguments: Mapping[str, Any], setup: str, statement_seconds: float = STATEMENT_SECONDS
) -> asyncpg.Connection:
    """Open a connection that is set up; raises `UnfitDatabase` when it is not what Parley relies on.

    A statement may take `statement_seconds`; 0: any time.
    """
    limit = statement_seconds + ANSWER_SECONDS if statement_seconds else None
    options = {"command_timeout": limit, "max_cached_statement_lifetime": 0, **arguments}
    try:
        connection = await asyncpg.connect(timeout=CONNECT_SECONDS, **options)
    except asyncpg.TargetServerAttributeNotMatched:
        raise ReadOnlyDatabase("it is a standby, or read-only") from None
    with contextlib.ExitStack() as closing:
        closing.callback(connection.terminate)
        await prepare(connection, setup)
        closing.pop_all()
    return connection


async def prepare(connection: asyncpg.Connection, setup: str) -> None:
    """Set a connection up; raises `UnfitDatabase`."""
    try:
        await connection.execute(setup)
    except asyncpg.PostgresError as error:
        raise to_unfit(error) or error from None


def to_unfit(error: BaseException) -> UnfitDatabase | None:
    """Return what the verification of a connection found, None if the error is another one."""
    kind = {NOT_VERIFIED: UnfitDatabase, TAKES_NO_WRITES: ReadOnlyDatabase}.get(getattr(error, "sqlstate", None) or "")
    return None if kind is None else kind(str(error).partition("\n")[0])


async def examine(arguments: Mapping[str, Any], setup: str, setting: str = "DATABASE_URL") -> Server:
    """Verify that a connection is one session, also between statements, and return the server that answers.

    `setting` has the address. Raises `UnfitDatabase` with the remedy: a pooler that gives a session to others after
    each transaction or statement loses notifications, prepared statements and settings, the role among them.
    """
    with contextlib.ExitStack() as closing:
        first = await connect(arguments, setup)
        closing.callback(first.terminate)
        server = await read_server(first)
        try:
            second = await connect(arguments, setup)
            closing.callback(second.terminate)
            cause = await _use_in_turns(first, second)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
            cause = str(error).partition("\n")[0]
            # A pooler lets the second connection wait for what the first one has.
            if NO_CONNECTION_LEFT in cause or (server.is_pooled and isinstance(error, TimeoutError)):
                raise Unavailable(TOO_FEW) from None
            if getattr(error, "sqlstate", None) not in OF_A_POOLER and POOLING not in cause:
                raise
        if cause is not None:
            raise UnfitDatabase(POOLED.format(setting=setting, cause=cause, remedy=REMEDIES[setting]))
        return server


def refuse_unfit(version: int, *, has_vector: bool) -> None:
    """Raise `ConfigurationError` with the remedy when Postgres is older than `MIN_VERSION` or has no pgvector."""
    if version < MIN_VERSION:
        raise ConfigurationError(f"DATABASE_URL: this is Postgres {version}; Parley needs {MIN_VERSION} or newer.")
    if not has_vector:
        raise ConfigurationError(
            "DATABASE_URL: the extension pgvector is missing; install it (Debian: "
            f"apt-get install postgresql-{version}-pgvector) or use the image pgvector/pgvector:pg{version}."
        )


async def read_server(connection: asyncpg.Connection) -> Server:
    """Return the server at the end of this connection."""
    version, host, port, pid, connections = await connection.fetchrow(SERVER)
    # PgBouncer tells its clients a number of its own.
    return Server(version, host, port, connections=connections, is_pooled=connection.get_server_pid() != pid)


async def _use_in_turns(first: asyncpg.Connection, second: asyncpg.Connection) -> str | None:
    # Returns what does not last.
    session = await first.prepare(SESSION)
    before = await session.fetchrow()
    async with hearing(first) as (channel, heard):
        # The other one holds the session that a pooler would give the first one again.
        async with second.transaction():
            await second.execute("SELECT pg_notify($1, '')", channel)
            if await session.fetchrow() != before:
                return "the session changes between statements"
        return None if await heard() else "notifications are lost"


@contextlib.asynccontextmanager
async def hearing(connection: asyncpg.Connection) -> AsyncIterator[tuple[str, Callable[[], Awaitable[bool]]]]:
    """Listen for the block; yield the channel, and what waits for its first notification and tells whether it came."""
    arrived, channel = asyncio.Event(), f"parley_{uuid4().hex}"

    async def heard() -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(arrived.wait(), NOTIFICATION_SECONDS)
        # Notifications are lost only if the server answers otherwise.
        await connection.execute("SELECT 1")
        return arrived.is_set()

    await connection.add_listener(channel, lambda *_: arrived.set())
    yield channel, heard
