"""A database that is full, changed under open connections, or not there yet: Parley waits and goes on by itself."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy import text

from adapters.cli.compose import open_app
from adapters.cli.database import _replace_database
from adapters.cli.opening import prepare
from adapters.cli.run import _list_addresses
from adapters.cli.serving import _wait_for_database
from adapters.cli.worker import build_worker
from shared.backup.database import DumpOptions, write_dump
from shared.db.database import Address, Database, DatabaseLost
from shared.db.hosts import URL, make_url
from shared.db.migrations import migrate
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.standins.openai_api.script import gated_answer
from tests.support.connections import connected
from tests.support.given_database import given_database
from tests.support.next_release import write_next_release
from tests.support.parley import Parley, message, open_parley
from tests.support.recovery import answer_of, cut_connections

FULL = """
CREATE SEQUENCE refused;
GRANT ALL ON refused TO parley_app;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
'BEGIN PERFORM nextval(''refused'');
RAISE EXCEPTION ''could not extend file: No space left on device'' USING ERRCODE = ''disk_full''; END'
"""
WRITTEN = ("inbox", "turns", "messages", "outbox", "budget_reservations", "jobs")


@asynccontextmanager
async def full_disk(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """Refuse every write to the tables of turns as a server without room does."""
    async with connected(database.address) as owner:
        await owner.execute(FULL)
        for table in WRITTEN:
            await owner.execute(
                f"CREATE TRIGGER a_full_disk BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()"
            )
        yield owner
        await owner.execute("DROP FUNCTION refuse CASCADE")


async def test_a_message_is_not_accepted_while_the_disk_is_full_and_is_afterwards(parley: Parley) -> None:
    async with full_disk(parley.app.database):
        with pytest.raises(DatabaseLost):
            await parley.accept("hello")

    assert (await parley.ask("hello")).error is None


async def test_a_disk_that_is_full_for_a_while_fails_no_turn_and_leaves_nothing_reserved(parley: Parley) -> None:
    gate, answer = gated_answer("It is done.")
    parley.model.play(answer)
    accepted = await parley.accept("hello")
    await parley.model.until(1)
    async with full_disk(parley.app.database) as owner, asyncio.timeout(100):
        gate.set()
        # The answer was tried to be stored several times.
        while await owner.fetchval("SELECT last_value FROM refused") < 3:
            pass
    response = await parley.app.events.response(accepted.inbox_id)

    assert (response.content, response.error) == ("It is done.", None)
    assert await parley.value("SELECT sum(tokens_reserved) FROM users") == 0


@asynccontextmanager
async def away(postgres: URL, address: Address) -> AsyncIterator[None]:
    """Keep a database from its users for the block: their connections end, and no new one is accepted."""
    async with connected(Address(postgres, is_embedded=True)) as owner:
        await owner.execute(f"ALTER DATABASE {address.url.database} CONNECTION LIMIT 0")
        await cut_connections(postgres, address)
        yield
        await owner.execute(f"ALTER DATABASE {address.url.database} CONNECTION LIMIT -1")


async def test_a_worker_is_stopped_while_its_database_is_away_and_another_one_answers(
    postgres: URL, settings: Settings, address: Address, model: OpenAIStub
) -> None:
    gate, answer = gated_answer("It is done.")
    model.play(answer)
    async with open_parley(settings, address, model, works=False) as parley:
        stopped = asyncio.create_task(build_worker(parley.app, grace=0.1).run())
        accepted = await parley.accept("hello")
        await model.until(1)
        async with away(postgres, address):
            stopped.cancel()
            async with asyncio.timeout(100):
                await asyncio.gather(stopped, return_exceptions=True)
        gate.set()
        async with open_parley(settings, address, model):
            response = await parley.app.events.response(accepted.inbox_id)

    assert (response.content, response.error) == ("It is done.", None)


async def test_plans_that_no_longer_fit_are_replaced_with_their_connections(parley: Parley) -> None:
    for number in range(3):
        await parley.ask(f"hello {number}")
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")
    async with connected(parley.app.database.address) as owner:
        for table in ("jobs", "inbox", "turns", "messages", "users", "conversations"):
            await owner.execute(f"ALTER TABLE {table} ADD COLUMN of_a_restore text")

    for number in range(3):
        assert (await parley.ask(f"hello again {number}")).error is None


async def test_a_restore_under_a_running_worker_leaves_it_working(parley: Parley, tmp_path: Path) -> None:
    for number in range(3):
        await parley.ask(f"hello {number}")
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")
    address, file = parley.app.database.address, tmp_path / "whole.dump"
    async with (
        connected(parley.app.database.address) as owner,
        owner.transaction(isolation="repeatable_read", readonly=True),
    ):
        major, snapshot = owner.get_server_version().major, await owner.fetchval("SELECT pg_export_snapshot()")
        with file.open("wb") as dump:
            await asyncio.to_thread(write_dump, address, DumpOptions(major, snapshot, [], ""), dump)

    # It may deadlock with what the worker reads meanwhile; `parley restore` wants no worker to run.
    async with asyncio.timeout(100):
        while await asyncio.to_thread(_replace_database, address, file) != 0:
            pass

    for number in range(3):
        error, _ = await answer_of(parley, message(f"hello again {number}"))
        assert error is None
    assert await parley.value("SELECT count(*) FROM turns WHERE status = 'answered'") == 6


async def test_a_stale_plan_in_a_transaction_counts_as_a_lost_connection(database: Database) -> None:
    async with connected(database.address) as owner:
        await owner.execute("CREATE TABLE kept (id int); GRANT SELECT ON kept TO parley_app")
        for _ in range(2):
            async with database.transaction() as session:
                await session.execute(text("SELECT * FROM kept"))
        await owner.execute("ALTER TABLE kept ADD COLUMN more text")

        with pytest.raises(DatabaseLost):
            async with database.transaction() as session:
                await session.execute(text("SELECT * FROM kept"))
        async with database.transaction() as session:
            assert list((await session.execute(text("SELECT * FROM kept"))).keys()) == ["id", "more"]


async def test_a_table_that_a_restore_replaces_during_a_statement_counts_as_a_lost_connection(
    database: Database,
) -> None:
    tables = "CREATE TABLE kept (id int); GRANT SELECT ON kept TO parley_app;"
    function = "CREATE FUNCTION of_kept() RETURNS SETOF int LANGUAGE sql BEGIN ATOMIC SELECT id FROM kept; END"
    async with connected(database.address) as owner:
        await owner.execute(tables + function)
        async with owner.transaction():
            await owner.execute("DROP TABLE kept CASCADE")
            reading = asyncio.create_task(read_kept(database))
            while not await owner.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):
                assert not reading.done(), reading
            await owner.execute(tables + function)

        with pytest.raises(DatabaseLost):
            await reading
        assert await read_kept(database) == []


async def read_kept(database: Database) -> Sequence[object]:
    """Read a table by a function that knows it by its id."""
    async with database.statement() as session:
        return (await session.execute(text("SELECT * FROM of_kept()"))).all()


async def test_a_process_waits_at_the_start_until_the_database_takes_connections(
    postgres: URL, capsys: pytest.CaptureFixture[str]
) -> None:
    async with given_database(postgres) as address, connected(Address(postgres, is_embedded=True)) as owner:
        await owner.execute(f"ALTER DATABASE {address.url.database} CONNECTION LIMIT 0")
        task = start_waiting(partial(prepare, Settings(), address))
        output = await until_said(capsys, task, "waiting for the database: ")
        assert "too many connections" in output
        await owner.execute(f"ALTER DATABASE {address.url.database} CONNECTION LIMIT -1")

        assert await task


@pytest.mark.parametrize("table", ["alembic_version", "users", "jobs"])
async def test_a_process_waits_at_the_start_until_its_tables_can_be_read(
    database: Database, capsys: pytest.CaptureFixture[str], table: str
) -> None:
    async with connected(database.address) as owner:
        async with owner.transaction():
            await owner.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            task = start_waiting(partial(prepare, Settings(), database.address))
            output = await until_said(capsys, task, "waiting for the database: ")
            assert "while another program holds them" in output
            assert not task.done()

        assert await task


async def test_a_process_that_has_to_migrate_waits_until_the_tables_are_free(
    address: Address, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    versions = write_next_release(tmp_path, "ALTER TABLE users ADD COLUMN shoe_size int")
    async with connected(address) as owner:
        async with owner.transaction():
            await owner.execute("LOCK TABLE users IN ACCESS SHARE MODE")
            task = start_waiting(partial(migrate, address, versions))
            output = await until_said(capsys, task, "waiting for the database: ")
            assert "can't be changed while another program holds them" in output

        assert await task


async def test_a_database_that_is_full_once_the_tables_are_ready_is_waited_for_too(
    postgres: URL, settings: Settings, new_address: Address, capsys: pytest.CaptureFixture[str]
) -> None:
    async with connected(Address(postgres, is_embedded=True)) as owner:
        await owner.execute(f"ALTER DATABASE {new_address.url.database} CONNECTION LIMIT 0")
        try:
            opening = asyncio.create_task(open_and_report(settings, new_address))
            output = await until_said(capsys, opening, "listener_waits_for_database")
            assert "too many connections" in output
            # One for the notifications, and none for questions.
            await owner.execute(f"ALTER DATABASE {new_address.url.database} CONNECTION LIMIT 1")
            await until_said(capsys, opening, "waiting for the database: ")
        finally:
            await owner.execute(f"ALTER DATABASE {new_address.url.database} CONNECTION LIMIT -1")
        await opening


async def open_and_report(settings: Settings, address: Address) -> None:
    """Open Parley and list its addresses, as `parley run` does."""
    async with open_app(settings, address) as app:
        assert await _wait_for_database(partial(_list_addresses, app), asyncio.Event())


def start_waiting(work: Callable[[], Awaitable[object]]) -> asyncio.Task[bool]:
    """Begin a part of the start, as a process does that nobody stops."""
    return asyncio.create_task(_wait_for_database(work, asyncio.Event()))


async def until_said(capsys: pytest.CaptureFixture[str], task: asyncio.Task[object], text: str) -> str:
    """Wait until a process has written this, and return all that it wrote."""
    output = ""
    async with asyncio.timeout(100):
        while text not in output:
            await asyncio.wait({task}, timeout=0.05)
            assert not task.done(), task
            output += "".join(capsys.readouterr())
    return output


async def test_a_process_that_waits_for_the_database_can_be_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    stopping = asyncio.Event()
    address = Address(make_url(f"postgresql://u:p@127.0.0.1:{port}/x"), is_embedded=False)
    task = asyncio.create_task(_wait_for_database(partial(prepare, Settings(), address), stopping))
    await until_said(capsys, task, "no Postgres answers")
    stopping.set()

    assert not await task
