"""Migrations create the schema of the models, can be reverted, and give the program few rights."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, PrimaryKeyConstraint, UniqueConstraint, create_engine, text

from agent.tools.modules import discover
from shared.db.compatibility import list_revisions
from shared.db.database import MIGRATIONS, VERSIONS, Address, Database, find_revision, migrate, newest_revision
from shared.db.embedded import start_postgres
from shared.db.roles import ADMIN_ROLE, check_roles
from shared.errors import ConfigurationError, Unavailable
from shared.models import Base
from tests.conftest import new_database
from tests.support.connections import connected
from tests.support.folders import temporary_folder
from tests.support.given_database import given_database

# The tables of modules are in their folders.
discover()

# Objects of procrastinate and Alembic.
FOREIGN = r"^(procrastinate|alembic)"

# Everything in the schema, except objects of an extension or of something that is listed itself.
OBJECTS = """
WITH owned AS (SELECT objid FROM pg_depend WHERE deptype IN ('e', 'i')), ours AS (SELECT 'public'::regnamespace AS id)
SELECT format('%s %s', relkind, relname) FROM pg_class, ours
WHERE relnamespace = ours.id AND pg_class.oid NOT IN (SELECT objid FROM owned)
UNION ALL SELECT 'function ' || pg_proc.oid::regprocedure FROM pg_proc, ours
WHERE pronamespace = ours.id AND pg_proc.oid NOT IN (SELECT objid FROM owned)
UNION ALL SELECT 'type ' || typname FROM pg_type, ours
WHERE typnamespace = ours.id AND pg_type.oid NOT IN (SELECT objid FROM owned)
UNION ALL SELECT format('rights of %s %s', defaclobjtype, defaclacl) FROM pg_default_acl
UNION ALL SELECT format('rights on %s %s', relname, relacl) FROM pg_class, ours
WHERE relnamespace = ours.id AND relacl IS NOT NULL
UNION ALL SELECT 'policy ' || polname FROM pg_policy
UNION ALL SELECT 'trigger ' || tgname FROM pg_trigger WHERE NOT tgisinternal
ORDER BY 1
"""

CONSTRAINTS = """
SELECT conrelid::regclass || '.' || conname AS name, pg_get_constraintdef(oid) AS definition FROM pg_constraint
WHERE connamespace = 'public'::regnamespace AND conrelid <> 0 AND conrelid::regclass::text !~ $1
"""
INDEXES = """
SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS definition FROM pg_index
JOIN pg_class ON pg_class.oid = indrelid WHERE relnamespace = 'public'::regnamespace AND relname !~ $1
"""
COLUMNS = """
SELECT attrelid::regclass || '.' || attname AS name, concat_ws(
    ' | ', format_type(atttypid, atttypmod), attnotnull, attidentity, pg_get_expr(adbin, adrelid),
    col_description(attrelid, attnum), obj_description(attrelid, 'pg_class')
) AS definition
FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped AND relname !~ $1
"""


@pytest.fixture
async def empty(postgres: URL) -> AsyncIterator[Address]:
    """A database without any tables."""
    async with new_database(postgres, is_empty=True) as address:
        yield address


async def rows(address: Address, query: str, *given: Any) -> dict[str, str]:
    async with connected(address) as connection:
        return {row["name"]: row["definition"] for row in await connection.fetch(query, *given)}


async def objects(address: Address) -> list[str]:
    async with connected(address) as connection:
        return [row[0] for row in await connection.fetch(OBJECTS)]


def sync_url(address: Address) -> URL:
    return address.url.set(drivername="postgresql+psycopg")


def test_migrations_stand_in_one_line() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)

    revisions = [script.revision for script in scripts.walk_revisions()]

    assert len(scripts.get_heads()) == 1
    assert revisions == list(reversed(list_revisions(VERSIONS)))
    assert newest_revision() == scripts.get_current_head()


def test_every_migration_explains_itself() -> None:
    for path in sorted((MIGRATIONS / "versions").glob("[0-9]*.py")):
        written = path.read_text("utf-8")

        assert written.startswith('"""'), path.name
        assert "def downgrade" in written, path.name


def test_functions_of_the_database_stand_in_files_of_their_names() -> None:
    folder = MIGRATIONS / "sql"
    written = "".join(path.read_text("utf-8") for path in (MIGRATIONS / "versions").glob("*.py"))

    for path in folder.glob("*.sql"):
        assert f"CREATE FUNCTION public.{path.stem}(" in path.read_text("utf-8")
        assert f'"{path.stem}"' in written, "a migration installs it"


async def test_alembic_finds_no_difference_between_models_and_migrations(address: Address) -> None:
    def compare() -> list[Any]:
        engine = create_engine(sync_url(address))
        with engine.connect() as connection:
            options = {
                "compare_type": True,
                "compare_server_default": True,
                "include_name": lambda name, kind, _parents: kind != "table" or not str(name).startswith("procrast"),
            }
            found: list[Any] = compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata)
        engine.dispose()
        return found

    assert await asyncio.to_thread(compare) == []


@pytest.mark.parametrize("query", [CONSTRAINTS, INDEXES, COLUMNS], ids=["constraints", "indexes", "columns"])
async def test_tables_made_by_the_models_and_by_the_migrations_are_the_same(
    query: str, address: Address, empty: Address
) -> None:
    def make() -> None:
        engine = create_engine(sync_url(empty))
        with engine.begin() as connection:
            connection.execute(text("CREATE EXTENSION vector"))
            Base.metadata.create_all(connection)
        engine.dispose()

    await asyncio.to_thread(make)

    migrated, modelled = await rows(address, query, FOREIGN), await rows(empty, query, FOREIGN)
    assert migrated == modelled
    assert len(migrated) > 20


def test_every_table_and_column_has_a_comment_that_is_a_sentence() -> None:
    for table in Base.metadata.tables.values():
        assert (table.comment or "").endswith("."), table.name
        for column in table.columns:
            assert len(column.comment or "") >= 5, f"{table.name}.{column.name}"


def test_every_foreign_key_has_an_on_delete_rule_and_an_index() -> None:
    for table in Base.metadata.tables.values():
        unique = [each for each in table.constraints if isinstance(each, UniqueConstraint | PrimaryKeyConstraint)]
        led_by = {next(iter(each.columns)).name for each in (*table.indexes, *unique)}
        for key in table.foreign_keys:
            assert key.ondelete in {"CASCADE", "SET NULL"}, f"{table.name}.{key.parent.name}"
            assert key.parent.name in led_by, f"{table.name}.{key.parent.name}"


async def test_all_the_way_down_leaves_nothing_and_up_again_gives_the_same(address: Address) -> None:
    before = await objects(address)
    async with connected(address) as connection:
        await connection.execute("INSERT INTO users (display_name) VALUES ('Ann')")
        await connection.execute("INSERT INTO personas (name, system_prompt) VALUES ('Sage', 'You are wise.')")
        await connection.execute("INSERT INTO conversations (platform, platform_channel_id) VALUES ('web', 'c')")
        await connection.execute("INSERT INTO turns (conversation_id) SELECT id FROM conversations")
        await connection.execute("INSERT INTO memories (user_id, platform, content) SELECT id, 'web', 'tea' FROM users")

    assert await migrate(address, "base")
    left = [each for each in await objects(address) if "alembic_version" not in each]
    assert left == []
    assert await find_revision(address) is None

    assert await migrate(address)
    assert await objects(address) == before
    assert not await migrate(address)


async def test_one_step_down_and_up_works_from_every_revision(address: Address) -> None:
    before = await objects(address)

    for revision in reversed(list_revisions(VERSIONS)[:-1]):
        await migrate(address, revision)
        assert await find_revision(address) == revision
    await migrate(address)

    assert await objects(address) == before


async def test_processes_that_migrate_at_once_wait_for_each_other(empty: Address, tmp_path: Path) -> None:
    environment = {**os.environ, "DATABASE_URL": empty.libpq(as_owner=True)}
    command = (sys.executable, "-m", "adapters.cli", "migrate")
    running = [
        await asyncio.create_subprocess_exec(
            *command,
            env={**environment, "PYTHONPATH": str(MIGRATIONS.parent), "PARLEY_HOME": str(tmp_path)},
            cwd=tmp_path,
            stdout=PIPE,
            stderr=STDOUT,
        )
        for _ in range(2)
    ]

    outputs = [(await each.communicate())[0].decode() for each in running]

    assert [each.returncode for each in running] == [0, 0], outputs
    assert all(f"at revision {newest_revision()}" in each for each in outputs)
    assert not await migrate(empty)


async def test_a_migration_waits_for_no_lock_longer_than_four_seconds(address: Address) -> None:
    await migrate(address, "0002")
    async with connected(address) as connection, connection.transaction():
        await connection.execute("LOCK TABLE users")

        with pytest.raises(Unavailable, match="another program holds them"):
            await migrate(address)

    assert await migrate(address)


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
        assert await migrate(address, "base")


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
        with pytest.raises(ConfigurationError) as refused:
            await migrate(address)

        line = str(refused.value)
        assert reason in line
        assert "\n" not in line
        async with connected(Address(bare_postgres.set(database=address.url.database), is_embedded=True)) as superuser:
            await superuser.execute(line.partition("once: ")[2])
        assert await migrate(address)
        assert await find_revision(address) == newest_revision()
