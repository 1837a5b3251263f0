"""Brings the tables to what the program expects: Parley's own by Alembic, those of platforms and modules by SQL files.

The folder `schema` of a platform or module has its tables: files that run once each, in the order of their names. The
table `schema_history` tells which have run.

A program works with tables that are at least at its own revision, and still compatible with it: while a newer release
is rolled out, its tables serve the programs of the release before.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path

import asyncpg

from shared.db.connections import LONG_STATEMENT_SECONDS
from shared.db.database import Address, Database
from shared.db.driver import Session, to_sql
from shared.db.errors import server_errors, sqlstate_of, to_cause
from shared.db.roles import write_remedy
from shared.db.statements import load_statements
from shared.errors import ConfigurationError, Unavailable

statements = load_statements(__file__)

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"
VERSIONS = MIGRATIONS / "versions"
# An arbitrary number, the same in all processes: one holds the lock and migrates, others wait and find nothing to do.
MIGRATION_LOCK = 7_209_534_102
# How long a start waits for the lock of a table before it says so, and how long a migration does.
LOCK_SECONDS, MIGRATION_LOCK_SECONDS = 2, 4
INSUFFICIENT_PRIVILEGE = "42501"
LOCK_NOT_AVAILABLE = "55P03"
LOCKED = "The tables can't be changed while another program holds them; stop it, then start again."
DECLARED = re.compile(r'^(revision|down_revision) = (?:"(\w+)"|None)$', re.MULTILINE)
EARLIER = (
    "the tables (revision {revision}) are of a development version from before the first release, which no release "
    "takes over: back them up with that version, then start with an empty database or a new PARLEY_HOME."
)


@lru_cache(maxsize=32)
def list_revisions(folder: Path) -> tuple[str, ...]:
    """Return the revisions of a folder in the order in which they run: their files name the one before."""
    after: dict[str | None, str] = {}
    for path in folder.glob("[0-9]*.py"):
        found = dict(DECLARED.findall(path.read_text("utf-8")))
        after[found["down_revision"] or None] = found["revision"]
    revisions: list[str] = []
    while (following := after.get(revisions[-1] if revisions else None)) is not None:
        revisions.append(following)
    return tuple(revisions)


def list_files(folder: Path) -> list[Path]:
    """Return the SQL files of a folder `schema` in the order in which they run."""
    return sorted(folder.glob("*.sql"))


def is_earlier(revision: str, revisions: Sequence[str]) -> bool:
    """Return whether a revision is from before the first release, whose revision is the first."""
    return revision < revisions[0]


def list_missing(rows: Iterable[Iterable[str]], folders: Mapping[str, Path]) -> list[tuple[str, Path]]:
    """Return the owner and path of each SQL file that has not run; `rows` are the owner and file of those that have."""
    present = {tuple(row) for row in rows}
    files = [(owner, path) for owner, folder in folders.items() for path in list_files(folder)]
    return [(owner, path) for owner, path in files if (owner, path.name) not in present]


async def find_missing_tables(session: Session, folders: Mapping[str, Path]) -> str | None:
    """Return which platform or module lacks tables of its own, with the remedy; None if none does."""
    for owner, path in list_missing((await session.execute(statements.list_files_of_owners)).all(), folders):
        return f"The tables of {owner} lack {path.name}; run: parley migrate."
    return None


async def find_incompatibility(session: Session, revisions: Sequence[str]) -> str | None:
    """Return why a program with these revisions can't use the tables, with the remedy; None if it can.

    A revision that the program does not know is of a newer release.
    """
    *older, mine = revisions
    row = (await session.execute(statements.read_revision)).one_or_none()
    revision = "none" if row is None else row.version_num
    if row is not None and is_earlier(revision, revisions):
        return EARLIER.format(revision=revision)
    if row is None or revision in older:
        return f"The tables are at revision {revision}, the program needs {mine}; run: parley migrate."
    if revision == mine:
        return None
    oldest = (await session.execute(statements.read_oldest_revision)).scalar_one()
    if oldest in revisions:
        return None
    return (
        f"The tables are at revision {revision} of a newer release, which works with programs from revision {oldest} "
        f"on; this one has {mine}: install the newer release."
    )


def newest_revision(folder: Path = VERSIONS) -> str:
    """Return the revision that the code expects: the last one of the folder's migrations."""
    return list_revisions(folder)[-1]


async def find_revision(address: Address) -> str | None:
    """Return the current revision of the database, None when it is empty."""
    async with _impatient(address) as connection:
        if await connection.fetchval("SELECT to_regclass('alembic_version')") is None:
            return None
        revision: str | None = await connection.fetchval(to_sql(statements.read_revision))
        return revision


async def are_current(address: Address, folders: Mapping[str, Path]) -> bool:
    """Return whether the tables have all that the program and `folders` bring; then they are checked as well.

    Most starts find it so, and need two connections for that; raises what `check_tables` does.
    """
    async with _impatient(address) as connection:
        is_current = bool(
            await connection.fetchval(to_sql(statements.has_histories))
            and await connection.fetchval(to_sql(statements.read_revision)) == newest_revision()
            and not list_missing(await connection.fetch(to_sql(statements.list_files_of_owners)), folders)
        )
        if is_current:
            await _lock_tables(connection)
    if is_current:
        await (await address.connect()).close()
    return is_current


async def check_tables(address: Address) -> None:
    """Make sure that the tables can be read; raises `Unavailable` when another program holds one of them."""
    # As the program reads them, too: it is verified here, before it serves.
    await (await address.connect()).close()
    async with _impatient(address) as connection:
        await _lock_tables(connection)


async def _lock_tables(connection: asyncpg.Connection) -> None:
    if tables := await connection.fetchval(to_sql(statements.name_tables)):
        await connection.execute(f"LOCK TABLE {tables} IN ACCESS SHARE MODE")


async def migrate(address: Address, versions: Path = VERSIONS) -> bool:
    """Migrate Parley's own tables to the newest revision; returns False when there was nothing to do.

    A database that a newer release has migrated is left as it is. Raises `ConfigurationError` when that release works
    with this one no longer, when a development version made the database, or when the role of `DATABASE_URL` lacks
    privileges, and `Unavailable` when tables are locked.
    """
    present, revisions = await find_revision(address), list_revisions(versions)
    if present is not None and present not in revisions:
        if is_earlier(present, revisions):
            raise ConfigurationError(f"DATABASE_URL: {EARLIER.format(revision=present)}")
        database = Database(address, pool_size=1)
        try:
            async with database.statement() as session:
                reason = await find_incompatibility(session, revisions)
        finally:
            await database.close()
        if reason is not None:
            raise ConfigurationError(f"DATABASE_URL: {reason}")
        return False
    if present == revisions[-1]:
        return False
    try:
        await asyncio.to_thread(run_alembic, address, versions)
    except server_errors() as error:
        raise await _to_migration_error(error, address) from error
    return True


async def install_schemas(address: Address, folders: Mapping[str, Path]) -> list[str]:
    """Run what has not run yet of the folders `schema` of platforms and modules; return whose tables have changed.

    `folders` are named by their owner. Each file runs in a transaction of its own, with its entry in `schema_history`.
    """
    async with _impatient(address, MIGRATION_LOCK_SECONDS, is_transaction=False) as connection:
        await connection.execute("SELECT pg_advisory_lock($1)", MIGRATION_LOCK)
        missing = list_missing(await connection.fetch(to_sql(statements.list_files_of_owners)), folders)
        for owner, path in missing:
            await _run_file(connection, address, owner=owner, path=path)
    return list(dict.fromkeys(owner for owner, _ in missing))


async def _run_file(connection: asyncpg.Connection, address: Address, *, owner: str, path: Path) -> None:
    try:
        async with connection.transaction():
            await connection.execute(await asyncio.to_thread(path.read_text, "utf-8"))
            await connection.execute("INSERT INTO schema_history (owner, file) VALUES ($1, $2)", owner, path.name)
            await connection.execute(to_sql(statements.bring_in_line))
    except asyncpg.PostgresError as error:
        wrong = await _to_migration_error(error, address)
        if wrong is not error:
            raise wrong from error
        raise ConfigurationError(f"The tables of {owner} can't be made: {path.name}: {error}") from error


async def _to_migration_error(error: Exception, address: Address) -> Exception:
    state = sqlstate_of(error)
    if state == LOCK_NOT_AVAILABLE:
        return Unavailable(LOCKED)
    if state != INSUFFICIENT_PRIVILEGE:
        return error
    reason, user, database = str(to_cause(error)).partition("\n")[0], address.url.username, address.url.database
    async with _impatient(address) as connection:
        remedy = await write_remedy(connection, user or "")
    return ConfigurationError(
        f"DATABASE_URL: {user} may not prepare the database ({reason}); let a superuser do it once: CREATE EXTENSION "
        f"IF NOT EXISTS vector; {remedy} ALTER DATABASE {database} OWNER TO {user};"
    )


@asynccontextmanager
async def _impatient(
    address: Address, lock_seconds: int = LOCK_SECONDS, *, is_transaction: bool = True
) -> AsyncIterator[asyncpg.Connection]:
    # The owner's connection, which waits for locks only shortly.
    connection = await address.connect(as_owner=True, statement_seconds=LONG_STATEMENT_SECONDS)
    try:
        await connection.execute(f"SET lock_timeout = '{lock_seconds}s'")
        if not is_transaction:
            yield connection
            return
        async with connection.transaction():
            yield connection
    except asyncpg.LockNotAvailableError as error:
        raise Unavailable(f"The tables can't be read while another program holds them ({error}).") from None
    finally:
        await connection.close()


def run_alembic(address: Address, versions: Path = VERSIONS) -> None:
    """Run the migrations that have not run yet, on an event loop of their own; blocks."""
    # Imported here: Alembic takes 0.2 s to import, and most starts have nothing to migrate.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("version_locations", str(versions))
    config.set_main_option("path_separator", "newline")
    config.attributes["address"] = address
    command.upgrade(config, "head")
