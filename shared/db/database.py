"""The database: its address, the check of its version, and `Database`, the only code that commits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import asyncpg
from sqlalchemy import URL, NullPool, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    retry_if_not_exception_type,
    stop_after_delay,
    wait_exponential,
)

from shared.db.connections import (
    LIBPQ_PARAMETERS,
    LONG_STATEMENT_SECONDS,
    STATEMENT_SECONDS,
    Server,
    UnfitDatabase,
    build_setup,
    connect,
    examine,
)
from shared.db.driver import RELEASE_SECONDS, WAIT_SECONDS, Connection, Pool
from shared.db.embedded.server import CONNECTIONS, start_postgres
from shared.db.errors import REFUSED, is_broken, is_duplicate, is_lost, is_stale
from shared.db.history import Witness
from shared.db.hosts import KIND, READ_WRITE, Host, Servers, check_kind, list_hosts, parse_url
from shared.db.roles import APP_ROLE
from shared.errors import ConfigurationError, Unavailable
from shared.settings import Settings

Result = TypeVar("Result")

MIN_VERSION = 15
FIRST_WAIT_SECONDS = 0.1
MOST_STATEMENTS = 6  # each takes a millisecond, and each connection has to plan all of them once
# What a process that runs turns opens at most: both pools, one to listen, some for long work; and what is left for all
# that is not a worker: commands, psql, other adapters.
WORKER_CONNECTIONS, OTHER_CONNECTIONS = 20, 16


class DatabaseLost(Unavailable):
    """I lost my database for a moment; please try again."""

    code = "database_lost"


class AlreadyWritten(DatabaseLost):
    """I lost my database for a moment; please try again."""


class NoDatabase(ConfigurationError):
    """No Postgres answers at the address; it may be starting, or the address may be wrong."""


@dataclass(frozen=True, slots=True)
class Address:
    """Address of the database. `url` names the owner's role; a connection acts as `role` unless it is `as_owner`.

    Every connection says so itself when it is open: see `shared/db/connections.py`.
    """

    url: URL
    is_embedded: bool
    servers: Servers = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Remember the servers for this process."""
        object.__setattr__(self, "servers", Servers(list_hosts(self.url)))

    def asyncpg_arguments(self, *, as_owner: bool = False, role: str = APP_ROLE) -> dict[str, object]:
        """Return keyword arguments for `asyncpg.connect`; the role is that of the login until `setup` has run.

        Of several hosts they name the one that took writes last.
        """
        url = self.url
        ssl = url.query.get("sslmode") or url.query.get("ssl")
        host, port = url.query.get("host") or url.host, url.port
        if self.servers.hosts:
            host, port = self.servers.last or self.servers.hosts[0]
        return {
            # The embedded server asks the kernel who connects, and lets its user be any role.
            "user": role if self.is_embedded and not as_owner else url.username,
            "password": url.password or None,
            "host": host,
            "port": port,
            "database": url.database,
            "ssl": ssl or (False if str(host or "").startswith("/") else None),
        }

    def setup(
        self,
        *,
        as_owner: bool = False,
        role: str = APP_ROLE,
        statement_seconds: float = STATEMENT_SECONDS,
        **settings: str,
    ) -> str:
        """Return what a new connection runs, whichever driver opened it; `settings` come on top."""
        return build_setup(None if as_owner else role, statement_seconds, **settings)

    async def connect(
        self, *, as_owner: bool = False, role: str = APP_ROLE, statement_seconds: float = STATEMENT_SECONDS
    ) -> asyncpg.Connection:
        """Open a connection beside the pools, of several hosts to the one that takes writes.

        Raises `UnfitDatabase` when it is not what Parley relies on, `ReadOnlyDatabase` when no server takes writes.
        """
        open_one = self._opener(as_owner=as_owner, role=role, statement_seconds=statement_seconds)
        return await self.servers.open(open_one, has_history=as_owner or role == APP_ROLE)

    async def list_states(self) -> list[tuple[str, int | str]]:
        """Return each of several hosts as `Servers.list_states` does."""
        return await self.servers.list_states(self._opener(as_owner=True))

    async def look(self, connection: asyncpg.Connection) -> None:
        """Look whether the server of an open connection is still the one that takes writes, as `Servers.look` does."""
        await self.servers.look(connection, self._opener())

    def _opener(
        self, *, as_owner: bool = False, role: str = APP_ROLE, statement_seconds: float = STATEMENT_SECONDS
    ) -> Callable[[Host | None], Awaitable[asyncpg.Connection]]:
        setup = self.setup(as_owner=as_owner, role=role, statement_seconds=statement_seconds)
        arguments = self.asyncpg_arguments(as_owner=as_owner, role=role)

        async def open_one(host: Host | None) -> asyncpg.Connection:
            # Asked before anything else: a standby's log need not say each time that it is one.
            where = {} if host is None else {"host": host[0], "port": host[1], KIND: READ_WRITE}
            return await connect(arguments | where, setup, statement_seconds)

        return open_one

    def to_text(self) -> str:
        """Return the address for people, without the password."""
        url = self.url
        hosts = ",".join(f"{name}:{port}" for name, port in self.servers.hosts)
        if not hosts:
            return url.render_as_string(hide_password=True)
        text = url.difference_update_query(["host", "port"]).set(host=hosts).render_as_string(hide_password=True)
        # SQLAlchemy takes what has a colon for an address of IPv6.
        return text.replace(f"[{hosts}]", hosts)

    def libpq(self, *, as_owner: bool = False, role: str = APP_ROLE) -> str:
        """Return the address as a libpq URL, for psql, pg_dump and Alembic, of the login that `setup` expects."""
        user = role if self.is_embedded and not as_owner else self.url.username
        query = {**({} if self.is_embedded else LIBPQ_PARAMETERS), **self.url.query}
        if "ssl" in query:
            query["sslmode"] = query.pop("ssl")
        # SQLAlchemy's own rendering writes a space as `+`, which libpq reads as a plus sign.
        names = ":".join(quote(part, safe="") for part in (user, self.url.password) if part)
        host = f"[{self.url.host}]" if ":" in (self.url.host or "") else self.url.host or ""
        port = f":{self.url.port}" if self.url.port else ""
        database = quote(self.url.database or "", safe="")
        parameters = urlencode(query, doseq=True, quote_via=quote)
        return (
            f"postgresql://{names}{'@' if names else ''}{host}{port}/{database}{'?' if parameters else ''}{parameters}"
        )


def locate(settings: Settings) -> Address:
    """Return the address of the configured database, or start the embedded one.

    Raises `ConfigurationError` with the remedy when `DATABASE_URL` is not a Postgres URL.
    """
    if settings.database_url is None:
        return Address(start_postgres(settings.parley_home, count_connections(settings)), is_embedded=True)
    try:
        url = parse_url(settings.database_url.get_secret_value())
    except (ArgumentError, ValueError):
        raise ConfigurationError(
            "DATABASE_URL is not a database address; write postgresql://user:password@host:5432/database."
        ) from None
    if url.get_backend_name() not in {"postgresql", "postgres"}:
        raise ConfigurationError(
            f"DATABASE_URL names {url.get_backend_name()}; Parley needs postgresql:// (15 or newer)."
        )
    check_kind(url, "DATABASE_URL")
    return Address(url.set(drivername="postgresql"), is_embedded=False)


def count_connections(settings: Settings) -> int:
    """Return how many connections a server should take for `parley run` with these settings."""
    return max(CONNECTIONS, settings.count_workers() * WORKER_CONNECTIONS + OTHER_CONNECTIONS)


def find_shortage(server: Server, workers: int) -> str | None:
    """Return the sentence for a server that takes fewer connections than this many workers may open."""
    needed = workers * WORKER_CONNECTIONS
    if server.connections >= needed:
        return None
    remedy = f"set max_connections to {needed + OTHER_CONNECTIONS} or more there, or WORKERS to fewer"
    return f"{workers} workers open up to {needed} connections, and the server takes {server.connections}: {remedy}."


async def check(address: Address) -> Server:
    """Connect and check version, extensions and what Parley relies on; return the server that answers.

    Raises `ConfigurationError` with a one-line reason.
    """
    url = address.to_text()
    try:
        connection = await address.connect(as_owner=True)
    except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError):
        raise ConfigurationError(f"DATABASE_URL: user or password is wrong for {url}.") from None
    except asyncpg.InvalidCatalogNameError:
        raise ConfigurationError(
            f"DATABASE_URL: there is no database {address.url.database!r}; create it: createdb {address.url.database}."
        ) from None
    except (OSError, TimeoutError, asyncpg.PostgresError, ValueError) as error:
        kind = NoDatabase if is_lost(error) else ConfigurationError
        raise kind(f"DATABASE_URL: no Postgres answers at {url} ({error or type(error).__name__}).") from None
    try:
        version = connection.get_server_version().major
        vector = await connection.fetchval("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'")
    finally:
        await connection.close()
    refuse_unfit(version, has_vector=bool(vector))
    return await examine(address.asyncpg_arguments(as_owner=True), address.setup(as_owner=True))


def refuse_unfit(version: int, *, has_vector: bool) -> None:
    """Raise `ConfigurationError` with the remedy when Postgres is older than `MIN_VERSION` or has no pgvector."""
    if version < MIN_VERSION:
        raise ConfigurationError(f"DATABASE_URL: this is Postgres {version}; Parley needs {MIN_VERSION} or newer.")
    if not has_vector:
        raise ConfigurationError(
            "DATABASE_URL: the extension pgvector is missing; install it (Debian: "
            f"apt-get install postgresql-{version}-pgvector) or use the image pgvector/pgvector:pg{version}."
        )


class Database:
    """The connection pools. Only `transaction()`, and `statement()` for single statements, commit."""

    def __init__(self, address: Address, *, pool_size: int = 20) -> None:
        self.address = address
        own: dict[str, Any] = {
            "pool_timeout": WAIT_SECONDS,
            # The most recently used connection has prepared statements and warm caches on the server.
            "pool_use_lifo": True,
            "pool_size": pool_size // 2,
            "max_overflow": 0,
        }
        self.engine = _create_engine(self.connect, **own)
        _replace_old_connections(self.engine, address.servers)
        # Long work is rare, and has a connection of its own with another limit.
        long = partial(self.connect, statement_seconds=LONG_STATEMENT_SECONDS)
        self._sessions = async_sessionmaker(self.engine, expire_on_commit=False, autoflush=True)
        self._long_sessions = async_sessionmaker(_create_engine(long, poolclass=NullPool), expire_on_commit=False)
        size = min(MOST_STATEMENTS, pool_size - pool_size // 2)
        self._pool = Pool(self.connect, size, address.servers)

    @property
    def witness(self) -> Witness:
        """Return what this process has seen committed."""
        return self.address.servers.witness

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """Open a transaction: committed at the end of the block, rolled back on any exception.

        Raises `DatabaseLost` when the connection is lost or a statement takes too long: the block may or may not have
        been committed.
        """
        with _raise_database_lost():
            async with self._sessions() as session, session.begin():
                yield session

    @asynccontextmanager
    async def long_transaction(self) -> AsyncIterator[AsyncSession]:
        """Open a transaction whose statements may take up to an hour, on a connection of its own: for maintenance."""
        with _raise_database_lost():
            async with self._long_sessions() as session, session.begin():
                yield session

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[Connection]:
        """Open a connection in autocommit mode, at a third of the cost of a session.

        An exception rolls back none of the earlier statements. Raises `DatabaseLost` as `transaction` does.
        """
        with _raise_database_lost():
            async with self._pool.connection() as connection:
                yield connection

    async def warm(self, use: Callable[[Connection], Awaitable[object]]) -> None:
        """Open the connections for single statements, and run on each what takes long the first time."""
        with _raise_database_lost():
            await self._pool.warm(use)

    async def verify(self) -> None:
        """Verify that a connection still is what Parley relies on; raises `DatabaseLost`, caused by `UnfitDatabase`."""
        with _raise_database_lost():
            await self._pool.verify()

    async def connect(
        self, *, as_owner: bool = False, statement_seconds: float = STATEMENT_SECONDS
    ) -> asyncpg.Connection:
        """Open a connection outside the pools: for `LISTEN`, or as the tables' owner to make indexes."""
        return await self.address.connect(as_owner=as_owner, statement_seconds=statement_seconds)

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()
        # A server that is silent is not waited for; the process ends the connections with itself.
        with suppress(TimeoutError):
            await asyncio.wait_for(self.engine.dispose(), RELEASE_SECONDS)


async def retry_on_lost_db(work: Callable[[], Awaitable[Result]], seconds: float) -> Result:
    """Run database work, and retry it for up to `seconds` while the connection is lost.

    So a model answer that was paid for survives a lost connection. When an earlier try was committed but its
    acknowledgement was lost, the retry violates a unique constraint: it raises `AlreadyWritten`, a `DatabaseLost` that
    is not retried here, so that the turn resumes from its journal at once.
    """
    try:
        # The first try nearly always succeeds, and every turn makes some: it avoids the overhead of tenacity.
        return await work()
    except DatabaseLost:
        await asyncio.sleep(FIRST_WAIT_SECONDS)

    async def again() -> Result:
        try:
            return await work()
        except REFUSED as error:
            if not is_duplicate(error):
                raise
            raise AlreadyWritten from error

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(DatabaseLost) & retry_if_not_exception_type(AlreadyWritten),
        wait=wait_exponential(multiplier=2 * FIRST_WAIT_SECONDS, max=2),
        stop=stop_after_delay(max(0.0, seconds)),
        reraise=True,
    )
    return await retrying(again)


@contextmanager
def _raise_database_lost() -> Iterator[None]:
    try:
        yield
    except UnfitDatabase as error:
        raise DatabaseLost from error
    except (*REFUSED, OSError, PoolTimeout, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        if not is_lost(error):
            raise
        raise DatabaseLost from error


def _create_engine(connect: Callable[[], Awaitable[asyncpg.Connection]], **own: Any) -> AsyncEngine:
    # Parameters contain message text, which must not be logged.
    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, hide_parameters=True, **own)
    event.listen(engine.sync_engine, "handle_error", _replace_useless_connections)
    return engine


def _replace_old_connections(engine: AsyncEngine, servers: Servers) -> None:
    # Those to a server that was left behind, which may still answer.
    def note(_connection: object, record: Any) -> None:
        record.info["moves"] = servers.moves

    def refuse_old(_connection: object, record: Any, _proxy: object) -> None:
        if record.info["moves"] != servers.moves:
            raise DisconnectionError

    event.listen(engine.sync_engine, "connect", note)
    event.listen(engine.sync_engine, "checkout", refuse_old)


def _replace_useless_connections(context: ExceptionContext) -> None:
    # SQLAlchemy then replaces this connection and, if it was stale or silent, all others that were opened before.
    error = context.original_exception
    if is_stale(error) or isinstance(error, TimeoutError):
        context.is_disconnect = True
    elif is_broken(error):
        context.is_disconnect, context.invalidate_pool_on_disconnect = True, False
