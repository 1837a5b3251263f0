"""The database: its address, the check of its version, the migrations, and `Database`, the only code that commits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import asyncpg
from sqlalchemy import URL, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from shared.db.compatibility import find_incompatibility, list_revisions, version_table_of
from shared.db.driver import PROGRAM_NAME, Connection, Pool
from shared.db.embedded import start_postgres
from shared.db.roles import APP_ROLE, write_remedy
from shared.errors import ConfigurationError, Unavailable
from shared.settings import Settings

MIN_VERSION = 15
INSUFFICIENT_PRIVILEGE = "42501"
LOCK_NOT_AVAILABLE = "55P03"
UNIQUE_VIOLATION = "23505"
# How long a start waits for the lock of a table before it says so.
LOCK_SECONDS = 2
TABLES = """
SELECT string_agg(CAST(oid AS regclass)::text, ', ') FROM pg_class
WHERE relnamespace = CAST(current_schema() AS regnamespace) AND relkind = 'r' AND has_table_privilege(oid, 'SELECT')
"""
MOST_STATEMENTS = 6  # each takes a millisecond, and each connection has to plan all of them once
MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"
VERSIONS = MIGRATIONS / "versions"
CONNECTION_SETTINGS = {
    "application_name": PROGRAM_NAME,
    # Statements are few, short and indexed: to compile one, or to plan it for each run, takes longer than to run it.
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    # A worker that hangs loses its locks at about the time when other workers take over its turns.
    "idle_in_transaction_session_timeout": "10s",
}

# SQLSTATEs, or their prefixes, that pass by themselves: connection lost, transaction idle for too long, serialization
# failure, deadlock, no room on the disk or for another connection, server starting or stopping, I/O error.
TRANSIENT_STATES = ("08", "25P03", "40001", "40P01", "53", "57P", "58030")
# After a restore or a change of the tables, a connection may keep a plan that no longer fits: only a new one helps.
# A statement that the server does not know any more, a plan of other columns, a row of the catalogue that is gone.
UNKNOWN_STATEMENT, UNSUPPORTED, INTERNAL = "26000", "0A000", "XX000"
STALE_PLANS = ("cached plan", "cached statement plan", "cache lookup failed")

# Errors that the server reports, as SQLAlchemy and as asyncpg raise them.
REFUSED = (DBAPIError, asyncpg.PostgresError)


class DatabaseLost(Unavailable):
    """I lost my database for a moment; please try again."""

    code = "database_lost"


class NoDatabase(ConfigurationError):
    """No Postgres answers at the address; it may be starting, or the address may be wrong."""


@dataclass(frozen=True, slots=True)
class Address:
    """Address of the database. `url` names the owner's role; a connection acts as `role` unless it is `as_owner`."""

    url: URL
    is_embedded: bool

    def asyncpg_arguments(self, *, as_owner: bool = False, role: str = APP_ROLE) -> dict[str, object]:
        """Return keyword arguments for `asyncpg.connect`."""
        url = self.url
        settings = dict(CONNECTION_SETTINGS)
        user = url.username
        if self.is_embedded and not as_owner:
            user = role
        elif not as_owner and user != role:
            settings["role"] = role
        ssl = url.query.get("sslmode") or url.query.get("ssl")
        host = url.query.get("host") or url.host
        return {
            "user": user,
            "password": url.password or None,
            "host": host,
            "port": url.port,
            "database": url.database,
            "ssl": ssl or (False if str(host or "").startswith("/") else None),
            "server_settings": settings,
        }

    def libpq(self, *, as_owner: bool = False, role: str = APP_ROLE) -> str:
        """Return the address as a libpq URL, for psql and psycopg."""
        user = self.url.username
        query = dict(self.url.query)
        if "ssl" in query:
            query["sslmode"] = query.pop("ssl")
        if self.is_embedded and not as_owner:
            user = role
        elif not as_owner and user != role:
            query["options"] = f"-crole={role}"
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
        return Address(start_postgres(settings.parley_home), is_embedded=True)
    try:
        url = make_url(settings.database_url.get_secret_value())
    except (ArgumentError, ValueError):
        raise ConfigurationError(
            "DATABASE_URL is not a database address; write postgresql://user:password@host:5432/database."
        ) from None
    if url.get_backend_name() not in {"postgresql", "postgres"}:
        raise ConfigurationError(
            f"DATABASE_URL names {url.get_backend_name()}; Parley needs postgresql:// (15 or newer)."
        )
    return Address(url.set(drivername="postgresql"), is_embedded=False)


async def check(address: Address) -> None:
    """Connect once and check version and extensions; raises `ConfigurationError` with a one-line reason."""
    shown = address.url.render_as_string(hide_password=True)
    try:
        connection = await asyncpg.connect(timeout=10, **address.asyncpg_arguments(as_owner=True))
    except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError):
        raise ConfigurationError(f"DATABASE_URL: user or password is wrong for {shown}.") from None
    except asyncpg.InvalidCatalogNameError:
        raise ConfigurationError(
            f"DATABASE_URL: there is no database {address.url.database!r}; create it: createdb {address.url.database}."
        ) from None
    except (OSError, TimeoutError, asyncpg.PostgresError, ValueError) as error:
        kind = NoDatabase if is_lost(error) else ConfigurationError
        raise kind(f"DATABASE_URL: no Postgres answers at {shown} ({error or type(error).__name__}).") from None
    try:
        version = connection.get_server_version().major
        vector = await connection.fetchval("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'")
    finally:
        await connection.close()
    refuse_unfit(version, has_vector=bool(vector))


def refuse_unfit(version: int, *, has_vector: bool) -> None:
    """Raise `ConfigurationError` with the remedy when Postgres is older than `MIN_VERSION` or has no pgvector."""
    if version < MIN_VERSION:
        raise ConfigurationError(f"DATABASE_URL: this is Postgres {version}; Parley needs {MIN_VERSION} or newer.")
    if not has_vector:
        raise ConfigurationError(
            "DATABASE_URL: the extension pgvector is missing; install it (Debian: "
            f"apt-get install postgresql-{version}-pgvector) or use the image pgvector/pgvector:pg{version}."
        )


def newest_revision(folder: Path = VERSIONS) -> str:
    """Return the revision that the code expects: the last one of the folder's migrations."""
    return list_revisions(folder)[-1]


async def find_revision(address: Address, version_table: str = "alembic_version") -> str | None:
    """Return the current revision of the database, None when it is empty."""
    async with _impatient(address) as connection:
        if await connection.fetchval("SELECT to_regclass($1)", version_table) is None:
            return None
        revision: str | None = await connection.fetchval(f"SELECT version_num FROM {version_table}")
        return revision


async def check_tables(address: Address) -> None:
    """Make sure that the tables can be read; raises `Unavailable` when another program holds one of them."""
    async with _impatient(address) as connection:
        if tables := await connection.fetchval(TABLES):
            await connection.execute(f"LOCK TABLE {tables} IN ACCESS SHARE MODE")


@asynccontextmanager
async def _impatient(address: Address) -> AsyncIterator[asyncpg.Connection]:
    # The owner's connection, in a transaction that waits for locks only shortly.
    connection = await asyncpg.connect(timeout=10, **address.asyncpg_arguments(as_owner=True))
    try:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            yield connection
    except asyncpg.LockNotAvailableError as error:
        raise Unavailable(f"The tables can't be read while another program holds them ({error}).") from None
    finally:
        await connection.close()


async def migrate(address: Address, revision: str = "head") -> bool:
    """Migrate to the newest revision, or down to `revision`; returns False when there was nothing to do.

    A database that a newer release has migrated is left as it is. Raises `ConfigurationError` when that release works
    with this one no longer, or when the role of `DATABASE_URL` lacks privileges, `Unavailable` when tables are locked.
    """
    present = await find_revision(address)
    # A revision that is unknown here is of a newer release.
    is_newer = present is not None and present not in list_revisions(VERSIONS)
    if revision == "head" and is_newer:
        await _refuse_incompatible(address)
    if revision == "head" and (is_newer or present == newest_revision()):
        return False
    await _migrate_safely(address, revision)
    return True


async def migrate_platforms(address: Address, folders: Mapping[str, Path]) -> list[str]:
    """Migrate the platforms' own tables to the newest revisions; return the names of those where it was necessary.

    Each platform has a line of migrations of its own, from 0001 on, which runs after Parley's.
    """
    changed = []
    for name, folder in folders.items():
        present = await find_revision(address, version_table_of(name))
        if present is None or present in list_revisions(folder)[:-1]:
            await _migrate_safely(address, "head", folder=folder, version_table=version_table_of(name))
            changed.append(name)
    return changed


async def _migrate_safely(address: Address, revision: str, **line: Any) -> None:
    try:
        await asyncio.to_thread(_migrate, address.libpq(as_owner=True), revision, **line)
    except DBAPIError as error:
        raise await _migration_error(error, address) from error


async def _refuse_incompatible(address: Address) -> None:
    database = Database(address, pool_size=1)
    try:
        async with database.statement() as session:
            reason = await find_incompatibility(session, list_revisions(VERSIONS))
    finally:
        await database.close()
    if reason is not None:
        raise ConfigurationError(f"DATABASE_URL: {reason}")


async def _migration_error(error: DBAPIError, address: Address) -> Exception:
    state = sqlstate_of(error)
    if state == LOCK_NOT_AVAILABLE:
        return Unavailable("The tables can't be changed while another program holds them; stop it, then start again.")
    if state != INSUFFICIENT_PRIVILEGE:
        return error
    reason, user, database = str(error.orig).partition("\n")[0], address.url.username, address.url.database
    async with _impatient(address) as connection:
        remedy = await write_remedy(connection, user or "")
    return ConfigurationError(
        f"DATABASE_URL: {user} may not prepare the database ({reason}); let a superuser do it once: CREATE EXTENSION "
        f"IF NOT EXISTS vector; {remedy} ALTER DATABASE {database} OWNER TO {user};"
    )


def _migrate(url: str, revision: str, *, folder: Path | None = None, version_table: str = "alembic_version") -> None:
    # Imported here: Alembic takes 0.2 s to import, and most starts have nothing to migrate.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    if folder is not None:
        config.set_main_option("version_locations", str(folder))
        config.set_main_option("path_separator", "newline")
    config.attributes["url"] = url
    config.attributes["version_table"] = version_table
    if revision == "head":
        command.upgrade(config, revision)
    else:
        command.downgrade(config, revision)


class Database:
    """The connection pools. Only `transaction()`, and `statement()` for single statements, commit."""

    def __init__(self, address: Address, *, pool_size: int = 20) -> None:
        self.address = address
        self.engine: AsyncEngine = create_async_engine(
            "postgresql+asyncpg://",
            async_creator=self.connect,
            pool_size=pool_size // 2,
            max_overflow=0,
            pool_timeout=60,
            # The most recently used connection has prepared statements and warm caches on the server.
            pool_use_lifo=True,
            # Parameters contain message text, which must not be logged.
            hide_parameters=True,
        )
        event.listen(self.engine.sync_engine, "handle_error", _replace_stale_connections)
        self._sessions = async_sessionmaker(self.engine, expire_on_commit=False, autoflush=True)
        self._pool = Pool(address.asyncpg_arguments(), min(MOST_STATEMENTS, pool_size - pool_size // 2), is_stale)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """Open a transaction: committed at the end of the block, rolled back on any exception.

        Raises `DatabaseLost` when the connection is lost: the block may or may not have been committed.
        """
        with _raise_database_lost():
            async with self._sessions() as session, session.begin():
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

    async def connect(self, *, as_owner: bool = False) -> asyncpg.Connection:
        """Open a connection outside the pools: for `LISTEN`, or as the tables' owner to make indexes."""
        given = self.address.asyncpg_arguments(as_owner=as_owner)
        connection: asyncpg.Connection = await asyncpg.connect(timeout=10, **given)
        return connection

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()
        await self.engine.dispose()


@contextmanager
def _raise_database_lost() -> Iterator[None]:
    try:
        yield
    except (*REFUSED, OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        if not is_lost(error):
            raise
        raise DatabaseLost from error


def is_lost(error: BaseException) -> bool:
    """Tell whether the connection or transaction was lost for a transient reason, so that trying again can help."""
    if isinstance(error, DBAPIError) and (
        error.connection_invalidated or isinstance(error, InterfaceError) or is_broken(error)
    ):
        return True
    if isinstance(error, REFUSED):
        return is_stale(error) or str(sqlstate_of(error)).startswith(TRANSIENT_STATES)
    # asyncpg raises a ValueError for a parameter that it can't encode: that is a bug, not a lost connection.
    lost = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)
    return isinstance(error, lost) and not isinstance(error, ValueError)


def is_stale(error: BaseException) -> bool:
    """Tell whether the connection has become useless, although it is open: trying again helps on a new one."""
    state = sqlstate_of(error)
    # SQLAlchemy gives a stale plan no state.
    may_be = state in {UNSUPPORTED, INTERNAL, None}
    return state == UNKNOWN_STATEMENT or (may_be and any(plan in str(error) for plan in STALE_PLANS))


def is_broken(error: BaseException) -> bool:
    """Tell whether the server had ended the connection with an error that asyncpg read too late to report it.

    That happens to a process that was frozen within a transaction, for longer than the server keeps one open.
    """
    cause = error.orig if isinstance(error, DBAPIError) else error
    return isinstance(getattr(cause, "__cause__", None), asyncpg.InternalClientError)


def _replace_stale_connections(context: ExceptionContext) -> None:
    # SQLAlchemy then replaces this connection and, if it was stale, all others that were opened before.
    if is_stale(context.original_exception):
        context.is_disconnect = True
    elif is_broken(context.original_exception):
        context.is_disconnect, context.invalidate_pool_on_disconnect = True, False


def is_duplicate(error: BaseException) -> bool:
    """Tell whether a unique constraint was violated."""
    return sqlstate_of(error) == UNIQUE_VIOLATION


def sqlstate_of(error: BaseException) -> str | None:
    """Return the SQLSTATE of an error, None when the error did not come from the server."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return getattr(cause, "sqlstate", None)
