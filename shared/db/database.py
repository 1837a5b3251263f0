"""The database: its address, the check of its version, and `Database`, the only code that commits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

import asyncpg
from msgspec import Struct
from msgspec.structs import replace

from shared.db.connections import (
    LIBPQ_PARAMETERS,
    LONG_STATEMENT_SECONDS,
    STATEMENT_SECONDS,
    VERIFICATION,
    NoDatabase,
    Server,
    UnfitDatabase,
    build_setup,
    build_verification,
    connect,
    examine,
    prepare,
    read_server,
    refuse_unfit,
)
from shared.db.driver import Connection
from shared.db.embedded.server import start_postgres
from shared.db.errors import OTHER_HISTORY, is_duplicate, is_lost, server_errors, sqlstate_of
from shared.db.history import Witness
from shared.db.hosts import KIND, READ_WRITE, URL, Host, Servers, list_hosts, read_url, write_libpq
from shared.db.pooling.pool import Pool
from shared.db.pooling.pooler import Beginning, SharedConnection, check_pooler, connect_shared, write_beginning
from shared.db.pooling.room import POOL_SIZE, count_connections
from shared.db.pooling.watch import Watch
from shared.db.roles import APP_ROLE
from shared.errors import ConfigurationError, Unavailable
from shared.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

Result = TypeVar("Result")
FIRST_WAIT_SECONDS = 0.1


class DatabaseLost(Unavailable):
    """I lost my database for a moment; please try again."""

    code = "database_lost"


class AlreadyWritten(DatabaseLost):
    """I lost my database for a moment; please try again."""


@contextmanager
def raise_database_lost() -> Iterator[None]:
    """Raise `DatabaseLost` for what passes by itself."""
    try:
        yield
    except UnfitDatabase as error:
        raise DatabaseLost from error
    except (*server_errors(), OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        if not is_lost(error):
            raise
        raise DatabaseLost from error


class Address(Struct, frozen=True, dict=True):
    """Address of the database. `url` names the owner's role; a connection acts as `role` unless it is `as_owner`.

    Every connection says so itself when it is open: see `shared/db/connections.py`. `pooler` is that of a pooler that
    may share sessions: the pool's connections lead there, and `url` to the server.
    """

    url: URL
    is_embedded: bool
    pooler: URL | None = None

    @property
    def setting(self) -> str:
        """The name of the setting that has `url`."""
        return "DATABASE_DIRECT_URL" if self.pooler else "DATABASE_URL"

    @cached_property
    def servers(self) -> Servers:
        """The servers, remembered for this process."""
        return Servers(list_hosts(self.url))

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
        """Open a connection beside the pool, of several hosts to the one that takes writes.

        Raises `UnfitDatabase` when it is not what Parley relies on, `ReadOnlyDatabase` when no server takes writes.
        """
        open_one = self.opener(as_owner=as_owner, role=role, statement_seconds=statement_seconds)
        return await self.servers.open(open_one, has_history=as_owner or role == APP_ROLE)

    async def list_states(self) -> list[tuple[str, int | str]]:
        """Return each of several hosts as `Servers.list_states` does."""
        return await self.servers.list_states(self.opener(as_owner=True))

    def opener(
        self, *, as_owner: bool = False, role: str = APP_ROLE, statement_seconds: float = STATEMENT_SECONDS
    ) -> Callable[[Host | None], Awaitable[asyncpg.Connection]]:
        """Return what opens a connection to one of several hosts."""
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
            return url.to_text()
        query = {name: value for name, value in url.query.items() if name not in {"host", "port"}}
        return url.set(host=hosts, query=query).to_text()

    async def write_beginning(self, role: str = APP_ROLE) -> Beginning:
        """Return how transactions of a role begin behind a pooler; a direct connection notes the history before."""
        connection = await self.connect(as_owner=role != APP_ROLE, role=role)
        try:
            return await write_beginning(connection, role, self.servers.witness.history)
        finally:
            await connection.close()

    async def connect_shared(self, beginning: Beginning) -> SharedConnection:
        """Open a connection through the pooler, whose transactions begin so."""
        return await connect_shared(replace(self, url=self.pooler or self.url).asyncpg_arguments(), beginning)

    def libpq(self, *, as_owner: bool = False, role: str = APP_ROLE) -> str:
        """Return the address as a libpq URL, for psql and pg_dump, of the login that `setup` expects."""
        user = role if self.is_embedded and not as_owner else self.url.username
        return write_libpq(self.url, user, {} if self.is_embedded else LIBPQ_PARAMETERS)


def locate(settings: Settings) -> Address:
    """Return the address of the configured database, or start the embedded one.

    Raises `ConfigurationError` with the remedy when `DATABASE_URL` is not a Postgres URL.
    """
    if settings.database_url is None:
        if settings.database_direct_url is not None:
            raise ConfigurationError(
                "DATABASE_DIRECT_URL goes with DATABASE_URL, which is not set: name the pooler there, or leave it out."
            )
        return Address(start_postgres(settings.parley_home, count_connections(settings)), is_embedded=True)
    url = read_url(settings.database_url, "DATABASE_URL")
    if settings.database_direct_url is None:
        return Address(url, is_embedded=False)
    direct = read_url(settings.database_direct_url, "DATABASE_DIRECT_URL")
    return Address(direct, is_embedded=False, pooler=None if direct == url else url)


async def check(address: Address) -> Server:
    """Check version, extensions and what Parley relies on, and return the server; raises `ConfigurationError`."""
    url, setting = address.to_text(), address.setting
    try:
        connection = await address.connect(as_owner=True)
    except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError):
        raise ConfigurationError(f"{setting}: user or password is wrong for {url}.") from None
    except asyncpg.InvalidCatalogNameError:
        raise ConfigurationError(
            f"{setting}: there is no database {address.url.database!r}; create it: createdb {address.url.database}."
        ) from None
    except (OSError, TimeoutError, asyncpg.PostgresError, ValueError) as error:
        kind = NoDatabase if is_lost(error) else ConfigurationError
        raise kind(f"{setting}: no Postgres answers at {url} ({error or type(error).__name__}).") from None
    try:
        version = connection.get_server_version().major
        vector = await connection.fetchval("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'")
    finally:
        await connection.close()
    refuse_unfit(version, has_vector=bool(vector))
    server = await examine(address.asyncpg_arguments(as_owner=True), address.setup(as_owner=True), address.setting)
    if address.pooler is None:
        return server

    async def open_shared() -> SharedConnection:
        # The program's role is made by the first migration.
        return await address.connect_shared(await address.write_beginning("none"))

    await check_pooler(await address.connect(as_owner=True), open_shared)
    return replace(server, has_sessions_apart=True)


class Database:
    """The connection pool. Only `transaction()`, and `statement()` for single statements, commit."""

    def __init__(self, address: Address, *, pool_size: int = POOL_SIZE) -> None:
        self.address = address
        self._pool = Pool(self._open, pool_size, address.servers, is_shared=address.pooler is not None)
        self._watch = Watch(address.setting, self._pool, is_shared=address.pooler is not None)
        # How transactions begin where sessions are shared.
        self._beginning: Beginning | None = None
        self._long_work = asyncio.Lock()

    @property
    def witness(self) -> Witness:
        """Return what this process has seen committed."""
        return self.address.servers.witness

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["AsyncSession"]:
        """Open a transaction: committed at the end of the block, rolled back on any exception.

        Raises `DatabaseLost` when the connection is lost or a statement takes too long: the block may or may not have
        been committed.
        """
        with self._raise_database_lost():
            async with self._pool.session() as session, session.begin():
                yield session

    @asynccontextmanager
    async def long_transaction(self) -> AsyncIterator["AsyncSession"]:
        """Open a transaction whose statements may take up to an hour, on a connection of its own: for maintenance.

        It waits for the one before.
        """
        with self._raise_database_lost():
            async with self._long_work, self._long_sessions() as session, session.begin():
                yield session

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[Connection]:
        """Open a connection in autocommit mode, at a third of the cost of a session.

        An exception rolls back none of the earlier statements. Raises `DatabaseLost` as `transaction` does.
        """
        with self._raise_database_lost():
            async with self._pool.member() as member:
                yield Connection(member.driver)

    async def warm(self, use: Callable[[Connection], Awaitable[object]]) -> None:
        """Open the connections for single statements, and run on each what takes long the first time."""
        with self._raise_database_lost():
            await self._pool.warm(use)

    async def verify(self) -> None:
        """Verify that a connection still is what Parley relies on; raises `DatabaseLost`, caused by `UnfitDatabase`."""
        with self._raise_database_lost():
            async with self._pool.member() as member:
                await self._verify(member.driver)

    @asynccontextmanager
    async def owner(self) -> AsyncIterator[asyncpg.Connection]:
        """Open a session of the tables' owner for the block, for work of up to an hour, in place of a pooled one."""
        if self._watch.fault is not None:
            raise self._watch.fault
        async with self._pool.gap():
            connection = await self.address.connect(as_owner=True, statement_seconds=LONG_STATEMENT_SECONDS)
            try:
                yield connection
            finally:
                await connection.close()

    async def connect(self, *, statement_seconds: float = STATEMENT_SECONDS) -> asyncpg.Connection:
        """Open a connection beside the pool, which is a session: for `LISTEN`."""
        return await self.address.connect(statement_seconds=statement_seconds)

    async def look(self, listening: asyncpg.Connection) -> None:
        """Look whether the connection that listens, and the pool, are still what Parley relies on.

        Raises `UnfitDatabase`, `ReadOnlyDatabase` when its server takes no writes any more, or was left behind.
        """
        await self._watch.look(listening)
        await self.address.servers.look(listening, self.address.opener())

    async def read_server(self) -> Server:
        """Return the server that answers."""
        connection = await self.connect()
        try:
            return replace(await read_server(connection), has_sessions_apart=self.address.pooler is not None)
        finally:
            await connection.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    @cached_property
    def _long_sessions(self) -> "async_sessionmaker[AsyncSession]":
        # Imported here: it brings SQLAlchemy, which short commands do without.
        from shared.db.pooling.sessions import create_sessions

        # Long work is rare, and has a connection of its own with another limit, one at a time.
        return create_sessions(partial(self.connect, statement_seconds=LONG_STATEMENT_SECONDS))

    @contextmanager
    def _raise_database_lost(self) -> Iterator[None]:
        try:
            with raise_database_lost():
                if self._watch.fault is not None:
                    raise self._watch.fault
                yield
        except DatabaseLost as error:
            if error.__cause__ is not None and sqlstate_of(error.__cause__) == OTHER_HISTORY:
                self._beginning = None
            raise

    async def _verify(self, connection: asyncpg.Connection) -> None:
        if self.address.pooler is None:
            await prepare(connection, VERIFICATION)
        else:
            async with connection.transaction(in_any_history=True):
                await prepare(connection, build_verification(APP_ROLE))

    async def _open(self) -> asyncpg.Connection:
        if self.address.pooler is None:
            return await self.connect()
        if self._beginning is None or self._beginning.history != self.witness.history:
            self._beginning = await self.address.write_beginning()
        connection = await self.address.connect_shared(self._beginning)
        with ExitStack() as closing:
            closing.callback(connection.terminate)
            await self._verify(connection)
            closing.pop_all()
            return connection


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

    # Imported here: most commands never need it.
    import tenacity

    async def again() -> Result:
        try:
            return await work()
        except server_errors() as error:
            if not is_duplicate(error):
                raise
            raise AlreadyWritten from error

    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(DatabaseLost) & tenacity.retry_if_not_exception_type(AlreadyWritten),
        wait=tenacity.wait_exponential(multiplier=2 * FIRST_WAIT_SECONDS, max=2),
        stop=tenacity.stop_after_delay(max(0.0, seconds)),
        reraise=True,
    )
    return await retrying(again)
