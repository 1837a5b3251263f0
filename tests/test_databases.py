"""A database that a test takes over shows nothing of the test before."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace
from sqlalchemy import text

from shared.db.database import Address, Database
from shared.db.hosts import URL
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.connections import connected
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.parley import open_parley

Rows = dict[str, Any]
TABLES = """
SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1
"""
JSON = text("""SELECT CAST('{"a": 1}' AS jsonb)""")
ROWS = "SELECT json_agg(t ORDER BY t::text) FROM {} AS t"


@pytest.fixture
async def databases(postgres: URL, superuser: asyncpg.Connection) -> AsyncIterator[Databases]:
    """Databases that no test had before: one is dropped after many tests."""
    databases = Databases(postgres, superuser)
    yield databases
    await databases.close()


async def read_all(address: Address) -> Rows:
    """Return all rows and the numbers that come next."""
    async with connected(address) as owner:
        tables = [row[0] for row in await owner.fetch(TABLES)]
        rows = {table: await owner.fetchval(ROWS.format(table)) for table in tables}
        return rows | {"sequences": await owner.fetch("SELECT schemaname, sequencename, last_value FROM pg_sequences")}


async def read_name(address: Address) -> str:
    async with connected(address) as owner:
        return str(await owner.fetchval("SELECT current_database()"))


async def test_rows_and_numbers_are_those_of_the_template(databases: Databases) -> None:
    async with databases.one() as address:
        name, before = await read_name(address), await read_all(address)
        async with connected(address) as owner:
            await owner.execute(
                "INSERT INTO users (display_name) VALUES ('ann'), ('bob'); DELETE FROM users WHERE id = 2;"
                "UPDATE defaults SET guest_token_budget = 7; DELETE FROM schema_history; DELETE FROM counted_rows"
            )
        assert await read_all(address) != before
    async with databases.one() as address:
        assert (await read_name(address), await read_all(address)) == (name, before)


async def change_function(owner: asyncpg.Connection) -> None:
    await owner.execute("ALTER FUNCTION parley_accept(jsonb, boolean) COST 7")


async def change_rights(owner: asyncpg.Connection) -> None:
    await owner.execute("GRANT SELECT ON messages TO parley_readonly")


async def change_column(owner: asyncpg.Connection) -> None:
    await owner.execute("ALTER TABLE users ALTER display_name SET DEFAULT 'x'")


async def drop_trigger(owner: asyncpg.Connection) -> None:
    await owner.execute("ALTER TABLE users DISABLE TRIGGER ALL")


async def change_settings(owner: asyncpg.Connection) -> None:
    name = await owner.fetchval("SELECT current_database()")
    await owner.execute(f"ALTER DATABASE {name} SET work_mem = '1MB'")


async def write_much(owner: asyncpg.Connection) -> None:
    await owner.execute("INSERT INTO users (display_name) SELECT repeat('x', 60) FROM generate_series(1, 20000)")


@pytest.mark.parametrize(
    "change", [change_function, change_rights, change_column, drop_trigger, change_settings, write_much]
)
async def test_what_can_not_be_undone_is_left_to_nobody(
    databases: Databases, change: Callable[[asyncpg.Connection], Awaitable[None]]
) -> None:
    async with databases.one() as address:
        name = await read_name(address)
        async with connected(address) as owner:
            await change(owner)
    async with databases.one() as address:
        assert await read_name(address) != name


async def test_a_session_that_is_open_keeps_its_database_from_others(databases: Databases) -> None:
    async with databases.one() as address:
        name = await read_name(address)
        session = await address.connect(as_owner=True)
        await session.execute("BEGIN; INSERT INTO users (display_name) VALUES ('late')")
    async with databases.one() as address:
        assert await read_name(address) != name
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await session.execute("COMMIT")


async def test_what_a_killed_process_has_left_connected_is_ended(stages: Databases) -> None:
    async with stages.one() as address:
        name = await read_name(address)
        session = await Address(address.url, is_embedded=True).connect(as_owner=True)
        await session.execute("BEGIN; INSERT INTO users (display_name) VALUES ('late')")
    async with stages.one() as address, connected(address) as owner:
        assert await read_name(address) == name
        assert await owner.fetchval("SELECT count(*) FROM users WHERE display_name = 'late'") == 0
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await session.execute("COMMIT")


async def test_a_session_that_is_cut_off_in_a_statement_costs_no_database(databases: Databases) -> None:
    async with databases.one() as address, connected(address) as owner:
        name, session = await read_name(address), await address.connect()
        sleep = asyncio.create_task(session.execute("SELECT pg_sleep(600)"))
        sleeps = "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'"
        pid = session.get_server_pid()
        await eventually(partial(owner.fetchval, sleeps, pid))
        session.terminate()
        await asyncio.gather(sleep, return_exceptions=True)
    async with databases.one() as address:
        assert await read_name(address) == name


async def test_a_temporary_table_that_is_gone_costs_no_database(databases: Databases) -> None:
    async with databases.one() as address, connected(address) as owner:
        name = await read_name(address)
        await owner.execute("CREATE TEMP TABLE short (id bigint); DROP TABLE short")
    async with databases.one() as address:
        assert await read_name(address) == name


async def test_an_address_that_leads_elsewhere_gets_none_of_the_sessions(databases: Databases) -> None:
    async with databases.one() as address:
        await (await address.connect()).close()
        nowhere = replace(address, url=address.url.with_parameters({"host": "/nowhere"}))
        with pytest.raises(OSError, match="No such file"):
            await nowhere.connect()


async def test_a_session_ends_when_who_opens_it_is_cancelled(databases: Databases) -> None:
    async with databases.one() as address:
        session = await address.connect()
        pid = session.get_server_pid()
        await session.close()
    async with databases.one() as address, connected(address) as owner:
        opening = asyncio.create_task(address.connect())
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)

        async def has_ended() -> bool:
            return not await owner.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid)

        await eventually(has_ended)


async def test_a_session_brings_nothing_with_it(databases: Databases) -> None:
    async with databases.one() as address:
        database = Database(address)
        async with database.statement() as session:
            assert (await session.execute(JSON)).scalar_one() == {"a": 1}
        first = await address.connect()
        await first.execute("SET work_mem = '1MB'; SELECT pg_advisory_lock(7); LISTEN other")
        pid = first.get_server_pid()
        await first.close()
        assert first.is_closed()
        with pytest.raises(asyncpg.InterfaceError):
            await first.execute("SELECT 1")
        await database.close()
    async with databases.one() as address:
        connections = [await address.connect() for _ in range(3)]
        again = next(session for session in connections if session.get_server_pid() == pid)
        work_mem, role = await again.fetchrow("SELECT current_setting('work_mem'), current_user")
        assert (work_mem != "1MB", role) == (True, "parley_app")
        assert await again.fetch("SELECT * FROM pg_locks WHERE locktype = 'advisory'") == []
        assert await again.fetch("SELECT * FROM pg_listening_channels()") == []
        for session in connections:
            await session.close()


async def test_a_parley_that_has_ended_leaves_the_session_that_listened(
    databases: Databases, settings: Settings, model: OpenAIStub
) -> None:
    pids = []
    for _ in range(2):
        async with databases.one() as address, open_parley(settings, address, model) as parley:
            connection = parley.app.events.session.connection
            pids.append(connection and connection.get_server_pid())
            assert (await parley.ask("hello")).error is None
    assert pids[0] is not None
    assert pids[0] == pids[1]
