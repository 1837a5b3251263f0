"""PgBouncer in transaction mode: statements go through it, sessions directly, and no client changes another's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace
from sqlalchemy import text

from adapters.web.health import find_obstacle
from shared.db.connections import UnfitDatabase
from shared.db.database import Address, Database, DatabaseLost, check
from shared.db.hosts import URL
from shared.db.programs import list_dump_options
from shared.settings import Settings
from tests.shared.db.test_pooler import SECRET, retrying
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.connections import connected, run_as_owner
from tests.support.given_database import GivenTables, given_database
from tests.support.parley import open_parley
from tests.support.pgbouncer import pooled, shared
from tests.support.recovery import cut_connections

SLEEPERS = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND state = 'active'"
# A schema whose functions stand in front of those of the server and of ours, and what one of ours would see there.
TRAP = """
CREATE SCHEMA trap;
CREATE FUNCTION trap.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS $$ SELECT 'trapped' $$;
CREATE FUNCTION trap.current_setting(text) RETURNS text LANGUAGE sql AS $$ SELECT 'trapped' $$;
CREATE FUNCTION trap.parley_count_memories() RETURNS bigint LANGUAGE sql AS $$ SELECT -1::bigint $$;
CREATE TABLE trap.users (id bigint);
GRANT USAGE ON SCHEMA trap TO PUBLIC; GRANT SELECT ON trap.users TO PUBLIC;
"""
# What a client may leave in a session, and a query whose answer it would change.
LEFTOVERS = {
    "a search path": (
        "SET search_path = trap, pg_catalog, public",
        "SELECT count(*), current_setting('jit') FROM users",
    ),
    "a function": ("SET search_path = trap, public", "SELECT parley_count_memories()"),
    "a temporary table": (
        "CREATE TEMP TABLE users (id bigint); GRANT SELECT ON users TO PUBLIC",
        "SELECT count(*) FROM users",
    ),
    "a role": ("SET ROLE parley_readonly", "SELECT current_user"),
    "no row-level security": ("SET row_security = off", "SELECT current_setting('row_security')"),
    "a person": (
        "SET parley.user_id = '1'; SET parley.platform = 'web'",
        "SELECT count(*), coalesce(current_setting('parley.user_id', true), '') FROM memories",
    ),
    "all rows": ("SET parley.rows = 'all'", "SELECT count(*) FROM memories"),
    "an actor": ("SET parley.actor = 'somebody'", "SELECT coalesce(current_setting('parley.actor', true), '')"),
    "a limit of time": ("SET statement_timeout = '1h'", "SELECT current_setting('statement_timeout')"),
    "reading alone": (
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SELECT current_setting('transaction_read_only')",
    ),
    "an isolation": (
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SELECT current_setting('transaction_isolation')",
    ),
    "plans": ("SET plan_cache_mode = force_custom_plan", "SELECT current_setting('plan_cache_mode')"),
    "a time zone": (
        "SET TimeZone = 'Asia/Tokyo'; SET DateStyle = 'SQL, DMY'",
        "SELECT CAST(timestamptz '2026-02-03 00:00+00' AS text)",
    ),
    "strings": ("SET standard_conforming_strings = off", r"SELECT 'a\\b'"),
    "an encoding": ("SET client_encoding = 'LATIN1'", "SELECT current_setting('client_encoding')"),
    "commits that are not flushed": ("SET synchronous_commit = local", "SELECT current_setting('synchronous_commit')"),
}


@pytest.fixture
async def upstream(given: GivenTables) -> AsyncIterator[Address]:
    """A migrated database whose owner is no superuser."""
    async with given.one() as address:
        yield address


@asynccontextmanager
async def open_database(address: Address) -> AsyncIterator[Database]:
    database = Database(address)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def stranger(address: Address) -> AsyncIterator[asyncpg.Connection]:
    """Another client of the same pooler, with the same login."""
    arguments = replace(address, url=address.pooler or address.url).asyncpg_arguments()
    connection = await asyncpg.connect(**arguments, statement_cache_size=0)
    try:
        yield connection
    finally:
        connection.terminate()


@asynccontextmanager
async def beside_a_stranger(upstream: Address) -> AsyncIterator[tuple[Database, asyncpg.Connection]]:
    """Yield the program's database and a stranger: one session serves both, and nothing resets it."""
    async with (
        shared(upstream, default_pool_size=1, server_reset_query="") as address,
        open_database(address) as database,
        stranger(address) as other,
    ):
        yield database, other


async def ask(database: Database, query: str) -> tuple[Any, ...]:
    """Return the row of a query by a single statement, which a transaction has to confirm."""
    async with database.statement() as session:
        row = tuple((await session.execute(text(query.replace(":", "\\:")))).one())
    async with database.transaction() as session:
        assert tuple((await session.execute(text(query.replace(":", "\\:")))).one()) == row
    return row


async def test_what_another_client_left_changes_nothing(upstream: Address, subtests: pytest.Subtests) -> None:
    async with connected(upstream, as_owner=False) as program:
        await program.execute("INSERT INTO users DEFAULT VALUES")
        await program.execute("SELECT set_config('parley.user_id', '1', false)")
        await program.execute("INSERT INTO memories (user_id, platform, content) VALUES (1, 'web', 'tea')")
    await run_as_owner(upstream, TRAP)
    for name, (command, query) in LEFTOVERS.items():
        async with open_database(upstream) as direct:
            expected = await ask(direct, query)
        async with beside_a_stranger(upstream) as (database, other):
            await other.execute(command)
            # It changes what the other one's own statements do.
            theirs = tuple(await other.fetchrow(query))
            pid = await other.fetchval("SELECT pg_catalog.pg_backend_pid()")
            ours, ours_pid = await ask(database, query), await ask(database, "SELECT pg_backend_pid()")
        with subtests.test(name):
            assert theirs != expected
            assert ours == expected
            assert ours_pid == (pid,)


async def test_statements_prepared_by_others_under_any_name_are_not_ours(upstream: Address) -> None:
    names = [f"__asyncpg_stmt_{number}__" for number in range(1, 20)]
    names += [f"PGBOUNCER_{number}" for number in range(1, 20)]
    async with beside_a_stranger(upstream) as (database, other):
        assert await ask(database, "SELECT 1") == (1,)
        for name in names:
            with suppress(asyncpg.PostgresError):
                await other.execute(f'DEALLOCATE "{name}"')
            await other.execute(f"""PREPARE "{name}" AS SELECT 'theirs'""")
        await other.execute("LISTEN parley_turns; DECLARE own CURSOR WITH HOLD FOR SELECT 'theirs'")
        for number in range(3):
            assert await ask(database, f"SELECT 1, {number}") == (1, number)


async def test_nothing_of_ours_is_left_for_others(upstream: Address) -> None:
    async with beside_a_stranger(upstream) as (database, other):
        before = await other.fetchrow("SELECT current_user, current_setting('statement_timeout'), pg_backend_pid()")
        async with database.transaction() as session:
            await session.execute(text("SELECT set_config('parley.user_id', '1', true)"))
        assert await other.fetchval("SELECT current_setting('parley.user_id', true)") in (None, "")
        after = await other.fetchrow("SELECT current_user, current_setting('statement_timeout'), pg_backend_pid()")
    assert tuple(before) == tuple(after)


@pytest.mark.parametrize("failing", ["SELECT 1 / 0", "INSERT INTO users (id) VALUES (1), (1)", "SELECT nothing"])
async def test_a_statement_that_fails_holds_no_session(upstream: Address, failing: str) -> None:
    async with shared(upstream, default_pool_size=1) as address, open_database(address) as database:
        with pytest.raises(asyncpg.PostgresError):
            await ask(database, failing)
        assert await ask(database, "SELECT count(*) FROM users") == (0,)


async def test_a_statement_that_is_cancelled_holds_no_session(upstream: Address) -> None:
    async with (
        shared(upstream, default_pool_size=1) as address,
        open_database(address) as database,
        connected(upstream) as owner,
        asyncio.timeout(30),
    ):
        sleeping = asyncio.create_task(ask(database, "SELECT pg_sleep(60)"))
        while not await owner.fetchval(SLEEPERS):  # noqa: ASYNC110  # another process is watched, from outside
            await asyncio.sleep(0.01)
        sleeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
        assert await ask(database, "SELECT 1") == (1,)


async def test_people_behind_a_pooler_that_shares_two_sessions_are_kept_apart(
    postgres: URL, upstream: Address, settings: Settings, model: OpenAIStub
) -> None:
    async with shared(upstream, default_pool_size=2) as address:
        assert "through a pooler, sessions directly" in str(await check(address))
        async with open_parley(settings, address, model) as parley:
            model.play([Answer(tool_calls=[("knowledge__remember", {"content": SECRET})]), Answer("Noted.")])
            await parley.ask(f"please remember: {SECRET}", user="ann", channel="ann's own")
            model.play(lambda _body, _number: Answer("Hello."))
            await parley.ask("what is the code of my locker?", user="bob", channel="bob's own")
            of_bob = str(model.requests[-1].body)
            # The pooler's sessions end, as in a failover.
            assert await cut_connections(postgres, upstream)
            asks = partial(parley.ask, "what is the code of my locker?", user="ann", channel="ann's own")
            await retrying(DatabaseLost)(asks)
            of_ann = str(model.requests[-1].body)
            assert await retrying(DatabaseLost)(partial(find_obstacle, parley.app)) is None
            assert await parley.value("SELECT current_user") == "parley_app"
            assert await parley.value("SELECT count(*) FROM memories") == 0
    assert "4711" not in of_bob
    assert "4711" in of_ann


async def test_programs_of_postgres_get_the_direct_address(upstream: Address) -> None:
    async with shared(upstream) as address:
        assert (await list_dump_options(address))[0] == ["--enable-row-security"]
        assert f":{upstream.url.port}/" in address.libpq()


async def test_a_pooler_without_transactions_is_refused(upstream: Address) -> None:
    async with shared(upstream, "statement") as address:
        with pytest.raises(UnfitDatabase, match="pool_mode = transaction"):
            await check(address)


async def test_a_direct_address_that_leads_to_a_pooler_is_refused(upstream: Address) -> None:
    async with pooled(upstream, "transaction") as through:
        with pytest.raises(UnfitDatabase, match=r"^DATABASE_DIRECT_URL leads .* Postgres itself there"):
            await check(replace(through, pooler=through.url))


async def test_two_addresses_of_different_databases_are_refused(postgres: URL, upstream: Address) -> None:
    async with given_database(postgres) as other, pooled(other, "transaction") as through:
        with pytest.raises(UnfitDatabase, match="different databases"):
            await check(replace(upstream, pooler=through.url))


async def test_a_role_that_row_level_security_does_not_bind_is_noticed_through_the_pooler(
    postgres: URL, upstream: Address, settings: Settings, model: OpenAIStub
) -> None:
    inside = Address(postgres.set(database=upstream.url.database), is_embedded=True)
    async with shared(upstream) as address, open_parley(settings, address, model, works=False) as parley:
        assert await find_obstacle(parley.app) is None
        await run_as_owner(inside, "ALTER ROLE parley_app BYPASSRLS")
        try:
            assert "NOBYPASSRLS" in str(await find_obstacle(parley.app))
        finally:
            await run_as_owner(inside, "ALTER ROLE parley_app NOBYPASSRLS")
        assert await find_obstacle(parley.app) is None
