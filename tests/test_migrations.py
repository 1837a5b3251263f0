"""The schema is a baseline with comments, a release works beside the next, and the program has few rights."""

import asyncio
import os
import re
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from structlog.testing import capture_logs

from adapters.tables import list_schemas
from shared.db.database import Address, Database
from shared.db.embedded.server import start_postgres
from shared.db.hosts import URL
from shared.db.migrations import (
    MIGRATIONS,
    VERSIONS,
    are_current,
    find_revision,
    list_revisions,
    migrate,
    newest_revision,
)
from shared.db.roles import ADMIN_ROLE, check_roles
from shared.errors import ConfigurationError, Unavailable
from tests.conftest import new_database
from tests.support.connections import connected
from tests.support.folders import temporary_folder
from tests.support.forks import get_command
from tests.support.given_database import given_database
from tests.support.next_release import NEXT, write_next_release
from tests.support.parley import Parley

# Tables and views but Alembic's, with their columns.
COMMENTS = """
SELECT format('%s.%s', c.oid::regclass, a.attname) AS name, col_description(c.oid, a.attnum) AS column_comment,
       obj_description(c.oid, 'pg_class') AS table_comment
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname !~ '^alembic'
"""
FUNCTIONS = """
SELECT oid::regprocedure FROM pg_proc AS p
WHERE pronamespace::regnamespace::text IN ('public', 'admin')
      AND obj_description(oid, 'pg_proc') IS NULL
      AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.objid = p.oid AND d.deptype = 'e')
"""
# Foreign keys whose rows are neither deleted nor emptied with what they refer to, or are looked for without an index.
LOOSE_KEYS = """
SELECT conrelid::regclass || '.' || conname FROM pg_constraint AS k
WHERE contype = 'f' AND connamespace = 'public'::regnamespace
      AND (confdeltype NOT IN ('c', 'n') OR NOT EXISTS (
          SELECT FROM pg_index AS i WHERE i.indrelid = k.conrelid AND i.indkey[0] = k.conkey[1]
      ))
"""


@pytest.fixture
async def empty(postgres: URL) -> AsyncIterator[Address]:
    """A database without any tables."""
    async with new_database(postgres, template=None) as address:
        yield address


def test_migrations_stand_in_one_line() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)

    revisions = [script.revision for script in scripts.walk_revisions()]

    assert len(scripts.get_heads()) == 1
    assert revisions == list(reversed(list_revisions(VERSIONS)))
    assert newest_revision() == scripts.get_current_head()


def test_functions_of_the_database_stand_in_files_of_their_names() -> None:
    for path in (MIGRATIONS / "schema" / "functions").rglob("*.sql"):
        schema = "admin" if path.parent.name == "admin" else "public"
        functions = re.findall(r"^CREATE FUNCTION (\S+?)\(", path.read_text("utf-8"), re.MULTILINE)

        assert functions == [f"{schema}.{path.stem}"]


async def test_every_table_column_and_function_has_a_comment(owner: asyncpg.Connection) -> None:
    columns = await owner.fetch(COMMENTS)

    assert len(columns) > 500
    for column in columns:
        assert (column["table_comment"] or "").endswith("."), column["name"]
        assert len(column["column_comment"] or "") >= 5, column["name"]
    assert await owner.fetch(FUNCTIONS) == []


async def test_every_foreign_key_has_an_on_delete_rule_and_an_index(owner: asyncpg.Connection) -> None:
    assert await owner.fetch(LOOSE_KEYS) == []


async def test_processes_that_migrate_at_once_wait_for_each_other(empty: Address, tmp_path: Path) -> None:
    running = [await start_parley(empty, tmp_path, "migrate") for _ in range(2)]

    outputs = [(await process.communicate())[0].decode() for process in running]

    assert [process.returncode for process in running] == [0, 0], outputs
    assert all(f"at revision {newest_revision()}" in output for output in outputs)
    assert not await migrate(empty)


async def start_parley(address: Address, folder: Path, command: str) -> asyncio.subprocess.Process:
    """Start `parley …` on this database, as a process of its own."""
    environment = {**os.environ, "DATABASE_URL": address.libpq(as_owner=True)}
    return await asyncio.create_subprocess_exec(
        *(*get_command(), command),
        env={**environment, "PYTHONPATH": str(MIGRATIONS.parent), "PARLEY_HOME": str(folder), "PORT": "0"},
        cwd=folder,
        stdout=PIPE,
        stderr=STDOUT,
    )


@pytest.mark.parametrize("command", ["migrate", "run"])
async def test_a_database_of_a_development_version_is_refused_in_one_sentence(
    command: str, address: Address, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    await owner.execute("UPDATE alembic_version SET version_num = '0064'")

    process = await start_parley(address, tmp_path, command)
    output = (await process.communicate())[0].decode()

    assert process.returncode != 0
    line = output.strip().splitlines()[-1]
    assert "revision 0064" in line
    assert "back them up with that version, then start with an empty database or a new PARLEY_HOME." in line
    assert "Traceback" not in output
    assert await owner.fetchval("SELECT version_num FROM alembic_version") == "0064"


async def test_a_migration_waits_for_no_lock_longer_than_four_seconds(address: Address, tmp_path: Path) -> None:
    versions = write_next_release(tmp_path, "ALTER TABLE users ADD COLUMN shoe_size int")
    async with connected(address) as connection, connection.transaction():
        await connection.execute("LOCK TABLE users")

        with pytest.raises(Unavailable, match="another program holds them"):
            await migrate(address, versions)

    assert await migrate(address, versions)
    assert await find_revision(address) == NEXT
    assert not await migrate(address, versions)


async def test_a_start_sees_whether_there_is_anything_to_do_and_whether_the_tables_can_be_read(
    empty: Address, address: Address, tmp_path: Path
) -> None:
    folders = list_schemas(None)
    (tmp_path / "0001_later.sql").write_text("CREATE TABLE later (id int)")

    assert not await are_current(empty, folders)
    assert not await are_current(address, folders | {"modules/later": tmp_path})
    assert await are_current(address, folders)

    async with connected(address) as connection, connection.transaction():
        await connection.execute("LOCK TABLE users")
        with pytest.raises(Unavailable, match="another program holds them"):
            await are_current(address, folders)


async def test_the_release_before_works_beside_tables_that_were_expanded(parley: Parley, tmp_path: Path) -> None:
    address = parley.app.database.address
    assert (await parley.ask("hello")).content.startswith("You said: hello")

    await migrate(address, write_next_release(tmp_path, "ALTER TABLE users ADD COLUMN shoe_size int"))

    assert (await parley.ask("hello again")).content.startswith("You said: hello again")
    # It leaves the newer tables alone, also when it is started again.
    assert not await migrate(address)
    assert await find_revision(address) == NEXT


async def test_a_program_that_is_too_old_for_the_tables_takes_no_more_work_and_says_why(
    parley: Parley, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    assert (await parley.ask("hello")).content.startswith("You said: hello")
    contract = "UPDATE schema_compatibility SET oldest_revision = '{revision}'"

    with capture_logs() as lines:
        await migrate(parley.app.database.address, write_next_release(tmp_path, contract.format(revision=NEXT)))
        accepted = await parley.accept("are you there?")
        async with asyncio.timeout(30):
            while not (causes := [line["cause"] for line in lines if line["event"] == "worker_restarting"]):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    assert f"work with programs from revision {NEXT} on, this one has {newest_revision()}" in causes[0]
    assert await owner.fetchval("SELECT status FROM inbox WHERE id = $1", accepted.inbox_id) == "waiting"
    with pytest.raises(ConfigurationError, match="install the newer release"):
        await migrate(parley.app.database.address)
    # The newer program answers what waits.
    await owner.execute(contract.format(revision=newest_revision()))
    async with asyncio.timeout(60):
        answer = await parley.app.events.response(accepted.inbox_id)
    assert answer.content.startswith("You said: are you there?")


async def test_tables_of_a_newer_release_are_left_alone(address: Address) -> None:
    async with connected(address) as connection:
        await connection.execute("UPDATE alembic_version SET version_num = '9999'")

    assert not await migrate(address)


async def test_the_program_acts_as_a_role_with_few_rights(database: Database) -> None:
    connection = await database.connect()
    role = await connection.fetchrow(
        "SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = current_user"
    )
    assert dict(role) == {
        "rolname": "parley_app", "rolsuper": False, "rolbypassrls": False, "rolcreaterole": False, "rolcreatedb": False,
    }  # fmt: skip
    for statement in (
        "CREATE TABLE more (id int)",
        "UPDATE alembic_version SET version_num = '0001'",
        "DELETE FROM alembic_version",
        "ALTER TABLE users DISABLE TRIGGER parley_check_user",
        "ALTER TABLE memories DISABLE ROW LEVEL SECURITY",
        "DROP TABLE users CASCADE",
        "TRUNCATE users CASCADE",
        "CREATE ROLE somebody",
        "COPY users TO PROGRAM 'cat'",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)
    await connection.close()


@pytest.fixture(scope="module")
def bare_postgres() -> Iterator[URL]:
    """A server where the program's role does not exist yet."""
    with temporary_folder("test") as folder:
        yield start_postgres(folder)


async def test_an_owner_who_is_no_superuser_prepares_a_given_database(bare_postgres: URL) -> None:
    async with given_database(bare_postgres) as address:
        assert await migrate(address)

        async with connected(address, as_owner=False) as connection:
            assert await connection.fetchval("SELECT current_user") == "parley_app"
            await connection.execute("INSERT INTO users DEFAULT VALUES")
            await connection.execute("SELECT set_config('parley.user_id', '1', false)")
            await connection.execute("INSERT INTO memories (user_id, platform, content) VALUES (1, 'web', 'tea')")
        async with connected(address) as connection:
            await check_roles(connection)
        # An admin with a login of their own acts as the role, and the log has the login's name.
        async with connected(address, role=ADMIN_ROLE) as admin:
            await admin.execute("UPDATE users SET token_budget_monthly = 1")
            assert await admin.fetchval("SELECT who FROM admin.audit LIMIT 1") == address.url.username
        await refuse_strangers(bare_postgres.set(database=address.url.database))


async def refuse_strangers(url: URL) -> None:
    async with connected(Address(url, is_embedded=True)) as superuser:
        await superuser.execute("CREATE ROLE stranger LOGIN")
        async with connected(Address(url.set(username="stranger"), is_embedded=False)) as connection:
            with pytest.raises(ConfigurationError, match="GRANT parley_admin TO stranger;"):
                await check_roles(connection, [ADMIN_ROLE])
        await superuser.execute("ALTER ROLE parley_admin BYPASSRLS")
        with pytest.raises(ConfigurationError, match="ALTER ROLE parley_admin NOSUPERUSER NOBYPASSRLS;"):
            await check_roles(superuser)
        await superuser.execute("ALTER ROLE parley_admin NOBYPASSRLS; DROP ROLE stranger")


@pytest.mark.parametrize(
    ("rights", "owns", "has_vector", "reason"),
    [
        ("CREATEROLE", True, False, 'create extension "vector"'),
        ("CREATEROLE", False, True, "schema public"),
        ("NOCREATEROLE", True, True, "create role"),
    ],
)
async def test_an_owner_without_the_rights_gets_one_line_with_what_a_superuser_must_run(
    rights: str, owns: bool, has_vector: bool, reason: str, bare_postgres: URL
) -> None:
    async with given_database(bare_postgres, rights=rights, owns=owns, has_vector=has_vector) as address:
        with pytest.raises(ConfigurationError) as error:
            await migrate(address)

        line = str(error.value)
        assert reason in line
        assert "\n" not in line
        async with connected(Address(bare_postgres.set(database=address.url.database), is_embedded=True)) as superuser:
            await superuser.execute(line.partition("once: ")[2])
        assert await migrate(address)
        assert await find_revision(address) == newest_revision()
