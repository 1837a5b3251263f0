"""PgBouncer before the database, as its recipes set it up, and databases that do not keep what Parley relies on."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from itertools import product
from pathlib import Path

import asyncpg
import pytest
from pydantic import SecretStr
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from adapters.tables import update_tables
from adapters.web.health import find_obstacle
from shared.db.connections import UnfitDatabase
from shared.db.database import Address, Database, DatabaseLost, check, locate
from shared.db.hosts import URL
from shared.db.migrations import check_tables
from shared.db.programs import check_options, list_dump_options
from shared.db.roles import READONLY_ROLE
from shared.errors import ConfigurationError
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.command_line import types
from tests.support.connections import connected, run_as_owner
from tests.support.given_database import GivenTables
from tests.support.parley import open_parley
from tests.support.pgbouncer import pooled, set_pooler
from tests.support.recovery import cut_connections

SECRET = "the code of my locker is 4711"
OPEN_TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relrowsecurity AND NOT relforcerowsecurity
"""


def retrying(kind: type[Exception]) -> AsyncRetrying:
    """Try a block again for half a minute while it raises this."""
    return AsyncRetrying(
        retry=retry_if_exception_type(kind), wait=wait_fixed(0.05), stop=stop_after_delay(30), reraise=True
    )


REMEDY = r"DATABASE_URL leads to .* in DATABASE_DIRECT_URL, or .* session"


@pytest.fixture
async def upstream(given: GivenTables) -> AsyncIterator[Address]:
    """A migrated database whose owner is no superuser."""
    async with given.one() as address:
        yield address


async def test_behind_pgbouncer_nobody_reads_what_is_remembered_of_another(
    postgres: URL, upstream: Address, settings: Settings, model: OpenAIStub
) -> None:
    async with pooled(upstream) as address:
        located = locate(Settings(database_url=SecretStr(address.libpq(as_owner=True))))
        assert "through a pooler" in str(await check(located))
        async with open_parley(settings, located, model) as parley:
            model.play([Answer(tool_calls=[("knowledge__remember", {"content": SECRET})]), Answer("Noted.")])
            await parley.ask(f"please remember: {SECRET}", user="ann", channel="ann's own")
            model.play(lambda _body, _number: Answer("Hello."))
            await parley.ask("what is the code of my locker?", user="bob", channel="bob's own")
            of_bob = str(model.requests[-1].body)
            # The pooler's connections to the server end, as in a failover.
            assert await cut_connections(postgres, upstream)
            # The first statement on each of them is lost, which a person's client tries again.
            asks = partial(parley.ask, "what is the code of my locker?", user="ann", channel="ann's own")
            await retrying(DatabaseLost)(asks)
            of_ann = str(model.requests[-1].body)

            assert await retrying(DatabaseLost)(partial(parley.value, "SELECT current_user")) == "parley_app"
            assert await retrying(DatabaseLost)(partial(parley.value, "SELECT count(*) FROM memories")) == 0
    assert "4711" not in of_bob
    assert "4711" in of_ann


async def test_a_pooler_that_shares_sessions_is_refused_with_the_remedy(
    upstream: Address, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    settings_of_poolers: tuple[dict[str, object], ...] = ({}, {"server_reset_query": ""}, {"server_round_robin": 1})
    for mode, settings in product(("transaction", "statement"), settings_of_poolers):
        async with pooled(upstream, mode, **settings) as address:
            with subtests.test(f"{mode} {settings}"), pytest.raises(UnfitDatabase, match=REMEDY):
                await check(address)
    async with pooled(upstream, "transaction") as address:
        with pytest.raises(ConfigurationError, match="DATABASE_DIRECT_URL"):
            await types(address, tmp_path, "user", "list")


async def test_a_pooler_that_forgets_nothing_between_its_clients_serves(upstream: Address) -> None:
    async with pooled(upstream, server_reset_query="", default_pool_size=2) as address:
        first = await address.connect()
        await first.execute("SELECT set_config('parley.user_id', '7', false), set_config('jit', 'on', false)")
        await first.add_listener("gossip", lambda *_: None)
        await first.fetch("SELECT 1")
        await first.close()
        for _ in range(3):
            connection = await address.connect()
            assert await connection.fetchval("SELECT current_setting('parley.user_id', true)") in (None, "")
            assert await connection.fetchval("SHOW jit") == "off"
            assert await connection.fetchval("SELECT count(*) FROM pg_listening_channels()") == 0
            await connection.close()
            # The same session may serve the owner next.
            owner = await address.connect(as_owner=True)
            assert await owner.fetchval("SELECT current_user") == upstream.url.username
            await owner.close()


async def test_what_a_pooler_drops_is_refused_where_only_the_start_of_a_connection_can_say_it(
    upstream: Address,
) -> None:
    role = ("-crole=parley_readonly", "SELECT current_user = 'parley_readonly'")
    await check_options(upstream, *role)
    assert (await list_dump_options(upstream))[0] == ["--enable-row-security"]
    async with pooled(upstream) as address:
        with pytest.raises(ConfigurationError, match="pooler"):
            await check_options(address, *role)
        with pytest.raises(ConfigurationError, match="pooler"):
            await list_dump_options(address)


async def test_row_level_security_binds_the_owner_who_does_not_mean_all_rows(upstream: Address) -> None:
    async with connected(upstream, as_owner=False) as program:
        await program.execute("INSERT INTO users DEFAULT VALUES")
        await program.execute("SELECT set_config('parley.user_id', '1', false)")
        await program.execute("INSERT INTO memories (user_id, platform, content) VALUES (1, 'web', 'tea')")
    # A program whose role was dropped: it has the owner's login, and nothing else.
    mistaken = await asyncpg.connect(**upstream.asyncpg_arguments(as_owner=True))
    tables = ["memories", "memory_scopes", "memory_words", "memory_vectors"]
    assert [await mistaken.fetchval(f"SELECT count(*) FROM {name}") for name in tables] == [0] * len(tables)  # noqa: S608
    assert await mistaken.fetch(OPEN_TABLES) == []
    await mistaken.close()
    async with connected(upstream) as owner:
        assert await owner.fetchval("SELECT content FROM memories") == "tea"
        assert await owner.fetchval("SELECT parley_count_memories() + count(*) FROM memories") > 0
    async with connected(upstream, role="parley_admin") as admin:
        assert await admin.fetchval("SELECT memories FROM admin.memories_by_user") == 1
    async with connected(upstream, role="parley_readonly") as reader:
        assert await reader.fetchval("SELECT memories FROM admin.memories_by_user") == 1
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await reader.fetchval("SELECT content FROM memories")


async def test_functions_with_the_rights_of_their_owner_say_so_in_their_search_path(owner: asyncpg.Connection) -> None:
    bare = await owner.fetch("""
        SELECT oid::regprocedure FROM pg_proc AS p
        WHERE prosecdef AND pronamespace::regnamespace::text IN ('public', 'admin')
              AND NOT EXISTS (SELECT FROM unnest(proconfig) AS c WHERE c LIKE 'search\\_path=%pg\\_temp')
              AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.objid = p.oid AND d.deptype = 'e')
    """)
    assert bare == []


async def test_texts_for_embedding_are_no_way_around_the_policy(database: Database, owner: asyncpg.Connection) -> None:
    await owner.execute("INSERT INTO users (id) VALUES (1), (2)")
    await owner.execute("INSERT INTO memories (user_id, platform, content) VALUES (1, 'web', 'tea')")
    await owner.execute("UPDATE memories SET is_indexed = true, ordinal = 1, turn_length = 1")
    program = await database.connect()
    texts = "SELECT content FROM parley_texts_to_embed(ARRAY(SELECT generate_series(1, 100)))"
    assert await program.fetchval(texts) == "tea"
    # In a transaction of another person, and of a memory that nobody has claimed.
    await program.execute("SELECT set_config('parley.user_id', '2', false)")
    assert await program.fetch(texts) == []
    await program.execute("SELECT set_config('parley.user_id', '', false)")
    await owner.execute("UPDATE memories SET vectors_due_at = now()")
    assert await program.fetch(texts) == []
    await program.close()


@pytest.mark.parametrize(
    ("change", "back", "remedy"),
    [
        ("ALTER ROLE parley_app BYPASSRLS", "ALTER ROLE parley_app NOBYPASSRLS", "NOSUPERUSER NOBYPASSRLS"),
        ("ALTER ROLE parley_app SUPERUSER", "ALTER ROLE parley_app NOSUPERUSER", "NOSUPERUSER NOBYPASSRLS"),
        (
            "ALTER TABLE memories DISABLE ROW LEVEL SECURITY",
            "ALTER TABLE memories ENABLE ROW LEVEL SECURITY",
            "memories",
        ),
        ("REVOKE parley_app FROM {login}", "GRANT parley_app TO {login}", "GRANT parley_app TO {login}"),
    ],
)
async def test_a_login_or_a_role_that_is_not_what_it_has_to_be_does_not_serve(
    postgres: URL, upstream: Address, settings: Settings, model: OpenAIStub, change: str, back: str, remedy: str
) -> None:
    inside, login = Address(postgres.set(database=upstream.url.database), is_embedded=True), upstream.url.username
    async with open_parley(settings, upstream, model, works=False) as parley:
        assert await find_obstacle(parley.app) is None
        await run_as_owner(inside, change.format(login=login))
        try:
            with pytest.raises(UnfitDatabase, match=remedy.format(login=login)):
                await check_tables(upstream)
            # An open connection notices, too.
            assert remedy.format(login=login) in str(await find_obstacle(parley.app))
        finally:
            await run_as_owner(inside, back.format(login=login))
        assert await find_obstacle(parley.app) is None


async def test_a_role_for_which_there_is_no_policy_is_bound_by_those_that_there_are(
    postgres: URL, upstream: Address
) -> None:
    inside = Address(postgres.set(database=upstream.url.database), is_embedded=True)
    await run_as_owner(inside, f"ALTER ROLE {READONLY_ROLE} BYPASSRLS")
    try:
        with pytest.raises(UnfitDatabase, match="NOSUPERUSER NOBYPASSRLS"):
            await upstream.connect(role=READONLY_ROLE)
    finally:
        await run_as_owner(inside, f"ALTER ROLE {READONLY_ROLE} NOBYPASSRLS")


async def test_a_database_whose_search_path_leads_to_other_tables_does_not_serve_and_says_so(
    postgres: URL, upstream: Address
) -> None:
    name, beside = upstream.url.database, Address(postgres, is_embedded=True)
    inside = Address(postgres.set(database=name), is_embedded=True)
    await run_as_owner(inside, "CREATE SCHEMA other; CREATE TABLE other.users (id bigint)")
    await run_as_owner(inside, "GRANT USAGE, CREATE ON SCHEMA other TO PUBLIC")
    await run_as_owner(beside, f"ALTER DATABASE {name} SET search_path = other, public")

    for opening in (upstream.connect, partial(update_tables, upstream)):
        with pytest.raises(UnfitDatabase, match=f"other.*IN DATABASE {name} SET search_path = public;"):
            await opening()

    await run_as_owner(beside, f"ALTER DATABASE {name} SET search_path = public, other")
    await (await upstream.connect()).close()
    assert await update_tables(upstream) == []


async def test_where_a_schema_is_named_like_the_role_what_is_said_of_the_search_path_helps(
    postgres: URL, upstream: Address
) -> None:
    inside = Address(postgres.set(database=upstream.url.database), is_embedded=True)
    connection = await upstream.connect()
    role = await connection.fetchval("SELECT current_user")
    await connection.close()
    await run_as_owner(inside, f"CREATE SCHEMA {role}; GRANT USAGE ON SCHEMA {role} TO PUBLIC")

    with pytest.raises(UnfitDatabase, match=r'The search_path "\$user", public leads past') as error:
        await upstream.connect()
    await run_as_owner(inside, str(error.value).partition("let it run: ")[2].rstrip("."))
    await (await upstream.connect()).close()


@pytest.mark.parametrize("settings_of_pooler", [{}, {"server_round_robin": 1}])
async def test_a_pooler_that_begins_to_share_sessions_is_noticed_while_parley_runs(
    upstream: Address, settings: Settings, model: OpenAIStub, settings_of_pooler: dict[str, object]
) -> None:
    async with (
        pooled(upstream, "session", **settings_of_pooler) as address,
        open_parley(settings, address, model) as parley,
        asyncio.timeout(60),
    ):
        assert await find_obstacle(parley.app) is None
        await set_pooler(address, "pool_mode", "transaction")
        while "does not keep one session" not in str(await find_obstacle(parley.app)):  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0.1)
        with pytest.raises(DatabaseLost):
            await parley.accept("hello")
        await set_pooler(address, "pool_mode", "session")
        while await find_obstacle(parley.app) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        model.play([Answer("Hello.")])
        assert (await retrying(DatabaseLost)(partial(parley.ask, "hello"))).content == "Hello."
