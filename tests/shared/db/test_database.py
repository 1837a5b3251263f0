"""Address, start-up check and transactions of the database, external over TCP and embedded."""

import asyncio
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import pytest
import sqlalchemy
from msgspec.structs import replace
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from adapters.tables import update_tables
from shared.db.connections import LIBPQ_PARAMETERS, Server, refuse_unfit
from shared.db.database import Address, Database, DatabaseLost, check, locate
from shared.db.driver import Session
from shared.db.embedded.server import find_programs, start_postgres
from shared.db.hosts import URL, make_url
from shared.db.pooling.room import find_shortage
from shared.db.statements import Statement
from shared.errors import ConfigurationError
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.connections import connected
from tests.support.eventually import eventually
from tests.support.given_database import PASSWORD, given_database
from tests.support.parley import open_parley
from tests.support.silent_network import networked

USERS = "SELECT count(*) FROM users"
ATTACH = """
import sys
from pathlib import Path
from shared.db.embedded.server import start_postgres
folder = Path(sys.argv[1])
start_postgres(folder)
print((folder / "postgres" / "postmaster.pid").read_text().split()[0], flush=True)
sys.stdin.read()
"""


async def count(database: Database) -> int:
    async with database.transaction() as session:
        total: int = (await session.execute(text(USERS))).scalar_one()
        return total


async def test_a_transaction_commits_when_its_block_ends_and_rolls_back_when_it_raises(
    database: Database,
) -> None:
    async with database.transaction() as session:
        await session.execute(text("INSERT INTO users DEFAULT VALUES"))
    with suppress(KeyError):
        async with database.transaction() as session:
            await session.execute(text("INSERT INTO users DEFAULT VALUES"))
            raise KeyError

    assert await count(database) == 1


async def test_a_constraint_violation_is_raised_as_an_integrity_error(database: Database) -> None:
    with pytest.raises(IntegrityError, match="users_token_budget_monthly_is_not_negative"):
        async with database.transaction() as session:
            await session.execute(text("INSERT INTO users (token_budget_monthly) VALUES (-1)"))

    assert await count(database) == 0


async def test_a_single_statement_is_planned_once_for_all_parameters(database: Database) -> None:
    async with database.statement() as session:
        assert (await session.execute(text("SHOW plan_cache_mode"))).scalar_one() == "force_generic_plan"


async def test_a_connection_reads_the_same_before_and_after_its_first_transaction(new_address: Address) -> None:
    database = Database(new_address, pool_size=1)
    sql = """SELECT CAST(:json AS jsonb) AS json, CAST('{"b": 2}' AS json) AS b, :ids AS ids"""
    query = Statement(sql, {"ids": "bigint[]"})
    parameters = {"json": '{"a": [1]}', "ids": [1]}
    async with database.statement() as session:
        before = tuple((await session.execute(query, parameters)).one())
    async with database.transaction() as session:
        within = tuple((await session.execute(query, parameters)).one())
    async with database.statement() as session:
        after = tuple((await session.execute(query, parameters)).one())
    await database.close()

    assert before == within == after == ({"a": [1]}, {"b": 2}, [1])


async def test_a_terminated_connection_raises_database_lost_and_the_next_one_works(database: Database) -> None:
    with pytest.raises(DatabaseLost):
        async with database.transaction() as session:
            await session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    assert await count(database) == 0


async def test_a_connection_terminated_while_idle_fails_one_transaction_at_most(new_address: Address) -> None:
    database = Database(new_address)
    await count(database)
    owner = await Database(database.address).connect()
    pid = await owner.fetchval("SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> $1", 0)
    assert pid
    await owner.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await owner.close()

    # None, if its end has been noticed before.
    with suppress(DatabaseLost):
        await count(database)
    assert await count(database) == 0
    await database.close()


async def test_who_waits_for_a_connection_while_the_pool_is_closed_leaves_none(new_address: Address) -> None:
    database = Database(new_address, pool_size=1)
    async with database.statement():
        waiting = asyncio.create_task(count(database))
        # It runs up to where it waits for the connection.
        await asyncio.sleep(0)
        await database.close()
    assert await waiting == 0

    async with connected(new_address) as owner:
        others = "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND pid <> $1"
        await eventually(lambda: owner.fetchval(others, owner.get_server_pid()))


@pytest.mark.parametrize("is_late", [False, True], ids=["cancelled", "late"])
@pytest.mark.parametrize("opens", [Database.statement, Database.transaction])
async def test_what_follows_a_transaction_that_was_given_up_as_it_began_is_committed(
    postgres: URL, opens: Callable[[Database], AbstractAsyncContextManager[Session]], is_late: bool
) -> None:
    async def begin(database: Database) -> None:
        # As when the driver's own time is over.
        seconds = 0 if is_late else None
        async with database.statement() as session, asyncio.timeout(seconds), session.begin_nested():
            raise AssertionError

    async def write(database: Database) -> None:
        async with opens(database) as session:
            await session.execute(Statement("INSERT INTO lines VALUES (1)"))

    async with given_database(postgres) as upstream, connected(upstream) as owner:
        await owner.execute("CREATE TABLE lines (n integer); GRANT ALL ON lines TO PUBLIC")
        async with networked(upstream) as (network, address):
            database = Database(address, pool_size=1)
            await write(database)
            network.fall_silent()
            beginning = asyncio.create_task(begin(database))
            # It runs up to where it waits for the server.
            await asyncio.sleep(0)
            if not is_late:
                beginning.cancel()
            with suppress(DatabaseLost, asyncio.CancelledError):
                await beginning
            writing = asyncio.create_task(write(database))
            await asyncio.sleep(0)
            network.heal()
            await writing
            await database.close()
        assert await owner.fetchval("SELECT count(*) FROM lines") == 2


async def test_the_agent_runs_on_an_external_database_over_tcp_with_a_password(
    postgres: URL, settings: Settings, model: OpenAIStub
) -> None:
    model.play([Answer("Hi Ann.")])
    async with given_database(postgres) as server:
        address = locate(Settings(database_url=SecretStr(server.libpq(as_owner=True))))
        await check(address)
        await update_tables(address)

        async with open_parley(settings, address, model) as parley:
            assert (await parley.ask("hello")).content == "Hi Ann."
            assert await parley.value("SELECT current_user") == "parley_app"
            assert await parley.value(
                "SELECT count(*) FROM pg_stat_activity WHERE usename = :me", me=server.url.username
            )


async def test_programs_of_postgres_connect_to_an_external_database(postgres: URL) -> None:
    programs = find_programs()
    assert programs is not None
    async with given_database(postgres) as address:
        for as_owner, role in ((True, str(address.url.username)), (False, "parley_app")):
            commands = ["-Atq", "-c", address.setup(as_owner=as_owner), "-c", "SELECT current_user"]
            psql = await asyncio.create_subprocess_exec(
                programs / "psql", address.libpq(as_owner=as_owner), *commands, stdout=PIPE
            )
            output, _ = await psql.communicate()
            assert output.decode().split()[-1] == role


def test_special_characters_of_an_address_survive_in_the_libpq_url() -> None:
    url = URL(username="a b@c", password=PASSWORD + " +%", host="::1", port=5433, database="my db")

    conninfo = Address(url.set(query={"sslmode": "require"}), is_embedded=False).libpq()

    assert " " not in conninfo
    assert sqlalchemy.make_url(conninfo).translate_connect_args() | dict(sqlalchemy.make_url(conninfo).query) == {
        "username": "a b@c",
        "password": f"{PASSWORD} +%",
        "host": "::1",
        "port": 5433,
        "database": "my db",
        "sslmode": "require",
        **LIBPQ_PARAMETERS,
    }


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("hello", "DATABASE_URL is not a database address; write postgresql://user:password@host:5432/database."),
        ("mysql://root@localhost/x", "DATABASE_URL names mysql; Parley needs postgresql:// (15 or newer)."),
        ("postgresql://u:p@host:port/x", "DATABASE_URL is not a database address"),
    ],
)
def test_an_invalid_database_url_is_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        locate(Settings(database_url=SecretStr(url)))

    assert str(error.value).startswith(message)


def test_a_direct_address_goes_with_another_one() -> None:
    direct = SecretStr("postgres://u:p@db.example:5432/x")
    with pytest.raises(ConfigurationError, match="DATABASE_URL, which is not set"):
        locate(Settings(database_direct_url=direct))
    with pytest.raises(ConfigurationError, match=r"^DATABASE_DIRECT_URL is not a database address"):
        locate(Settings(database_url=direct, database_direct_url=SecretStr("hello")))

    pooler = SecretStr("postgres://u:p@pooler.example:6432/x")
    behind = locate(Settings(database_url=pooler, database_direct_url=direct))
    assert (behind.url.host, behind.pooler and behind.pooler.host) == ("db.example", "pooler.example")
    # Where both are the same there is no pooler, and nothing to pay for one.
    assert locate(Settings(database_url=direct, database_direct_url=direct)).pooler is None


def test_workers_that_a_server_has_no_room_for_are_named_with_the_remedy() -> None:
    server = Server("18.0", "db.example", 5432, connections=36, is_pooled=False)

    assert find_shortage(server, workers=3) is None
    assert find_shortage(server, workers=4) == (
        "4 workers open up to 24 connections, 13 are for all else, and the server takes 36: set max_connections to 40 "
        "or more there, or WORKERS to fewer."
    )
    behind_a_pooler = replace(server, has_sessions_apart=True)
    assert find_shortage(behind_a_pooler, workers=11) is None
    assert find_shortage(behind_a_pooler, workers=12) == (
        "12 workers open up to 24 connections beside the pooler's, 13 are for all else, and the server takes 36: set "
        "max_connections to 40 and the pooler's or more there, or WORKERS to fewer."
    )


def test_the_scheme_postgres_is_accepted() -> None:
    address = locate(Settings(database_url=SecretStr("postgres://u:p@db.example:5432/x")))

    assert address.url == make_url("postgresql://u:p@db.example:5432/x")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"password": "guessed"}, "user or password is wrong for postgresql://owner_"),
        ({"username": "owner_nobody"}, "user or password is wrong for postgresql://owner_nobody:***@"),
        ({"database": "none"}, "there is no database 'none'; create it: createdb none."),
    ],
)
async def test_a_connection_error_is_one_line_without_the_password(
    wrong: dict[str, str], message: str, postgres: URL
) -> None:
    async with given_database(postgres) as address:
        with pytest.raises(ConfigurationError) as error:
            await check(Address(address.url.set(**wrong), is_embedded=False))

    line = str(error.value)
    assert line.startswith("DATABASE_URL: ")
    assert message in line
    assert "\n" not in line
    assert PASSWORD not in line
    assert "guessed" not in line


async def test_a_refused_connection_is_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    with pytest.raises(ConfigurationError, match=rf"no Postgres answers at postgresql://u:\*\*\*@127.0.0.1:{port}/x"):
        await check(Address(make_url(f"postgresql://u:p@127.0.0.1:{port}/x"), is_embedded=False))


def test_an_old_release_and_a_missing_extension_are_reported_with_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match=r"this is Postgres 14; Parley needs 15 or newer\.$"):
        refuse_unfit(14, has_vector=True)
    with pytest.raises(ConfigurationError, match="apt-get install postgresql-16-pgvector"):
        refuse_unfit(16, has_vector=False)
    refuse_unfit(15, has_vector=True)


@asynccontextmanager
async def attached(folder: Path) -> AsyncIterator[tuple[Process, int]]:
    """Run a process that attaches to the embedded Postgres of this folder; yields the process and the server's pid."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ATTACH, str(folder), stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process, int(await process.stdout.readline())
    finally:
        process.stdin.close()
        await process.wait()


async def test_the_embedded_server_outlives_a_killed_process_and_stops_with_the_last_one(tmp_path: Path) -> None:
    async with attached(tmp_path) as (killed, first):
        killed.send_signal(signal.SIGKILL)
        await killed.wait()

    async with attached(tmp_path) as (_, second):
        assert second == first
        async with attached(tmp_path) as (_, third):
            assert third == first
        assert (tmp_path / "postgres" / "postmaster.pid").exists()

    assert not (tmp_path / "postgres" / "postmaster.pid").exists()


def test_a_home_that_is_no_folder_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")

    with pytest.raises(ConfigurationError, match=r"PARLEY_HOME: the embedded Postgres in .* does not start"):
        start_postgres(tmp_path / "home")
