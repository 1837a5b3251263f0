"""Partitions of what turns leave: made ahead, dropped when all of it has expired, while turns run."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from agent.queue.maintenance.retention import make_partitions, remove_expired
from agent.queue.maintenance.steps import Steps
from shared.clock import SystemClock
from shared.db.database import Address
from shared.db.hosts import URL
from shared.settings import Settings
from tests.conftest import new_database
from tests.support.connections import connected, until_somebody_waits
from tests.support.databases import Databases
from tests.support.parley import Parley
from tests.support.past import count_rows, write_past

TABLES = ("full_results", "turn_contexts", "turn_events")
# At least so many turns belong into a partition.
WIDTH = 100_000
PARTITIONS = "SELECT array_agg(from_id ORDER BY from_id) FROM parley_partitions() WHERE table_name = $1 AND from_id > 0"
MAKE = "SELECT parley_make_partitions(29)"
DROP = "SELECT parley_drop_partition('turn_events', 29)"
LOCKED = "SELECT count(*) FROM pg_locks WHERE relation = 'turn_events'::regclass AND mode = 'AccessExclusiveLock'"


@pytest.fixture
def brief(settings: Settings) -> Settings:
    """Settings that keep what turns leave for as long as the last month of `months`, the first turn of it excepted."""
    days = {f"retention_{name}_days": 29 for name in ("inbox", "outbox", "events", "confirmations")}
    return settings.model_copy(update=days)


@pytest.fixture(scope="module")
async def template(postgres: URL, superuser: asyncpg.Connection) -> AsyncIterator[Address]:
    """Three months of turns, each in partitions of its own; the first two have expired."""
    async with new_database(postgres, superuser=superuser) as address:
        for month in range(3):
            await write_past(address, turns=100, days=30, until=30 * (2 - month))
            await begin_at(address, WIDTH * (month + 1) + 1)
            await make(address)
        yield address


@pytest.fixture
async def address(
    request: pytest.FixtureRequest, databases: Databases, superuser: asyncpg.Connection, template: Address
) -> AsyncIterator[Address]:
    """With those months where a test asks for them: most of these change its tables, so that it is theirs alone."""
    has_months, name = "months" in request.fixturenames, template.url.database
    postgres = template.url.set(database="postgres")
    async with new_database(postgres, template=name, superuser=superuser) if has_months else databases.one() as address:
        yield address


@pytest.fixture
def months(address: Address) -> Address:
    """The address, where a test needs what `template` has."""
    return address


async def begin_at(address: Address, turn_id: int) -> None:
    """Let the next turn have this id, as if so many had been in between."""
    async with connected(address) as owner:
        await owner.fetchval("SELECT setval('turns_id_seq', $1)", turn_id - 1)


async def make(address: Address) -> int:
    """Make partitions as the program may; return how many."""
    async with connected(address, as_owner=False) as program:
        return int(await program.fetchval(MAKE))


def steps_of(parley: Parley) -> Steps:
    return Steps(parley.app.database, SystemClock(), pause_factor=0)


async def bounds(address: Address, table: str = "turn_events") -> list[int]:
    """Return the first turns of the partitions of a table."""
    async with connected(address) as owner:
        return list(await owner.fetchval(PARTITIONS, table) or ())


async def test_a_fresh_database_has_two_partitions_ahead_of_the_first_turn(address: Address) -> None:
    for table in TABLES:
        assert await bounds(address, table) == [1, 1 + WIDTH]
    assert await make(address) == 0


async def test_two_partitions_are_ahead_whatever_the_number_of_turns(parley: Parley, brief: Settings) -> None:
    address = parley.app.database.address
    await begin_at(address, WIDTH)
    await parley.ask("hello")

    assert await make_partitions(steps_of(parley), brief) == len(TABLES)

    for table in TABLES:
        assert await bounds(address, table) == [1, 1 + WIDTH, 1 + 2 * WIDTH]


async def test_a_partition_is_as_wide_as_a_twelfth_of_the_retention_has_turns(address: Address) -> None:
    # Ten million turns in 96 days: 833,333 in the last eight, and fewer than that in the last day.
    await write_past(address, turns=960, days=96)
    async with connected(address) as owner:
        await owner.execute("SET session_replication_role = replica")
        await owner.execute("UPDATE turns SET id = id * 10000")
    await begin_at(address, 9_600_001)

    async with connected(address, as_owner=False) as program:
        # The default partitions hold the rows of these turns; what is ahead begins behind all of them.
        assert await program.fetchval("SELECT parley_make_partitions(96)") > 0

    first, second = (await bounds(address))[-2:]
    assert first > 9_600_000
    assert second - first == pytest.approx(800_000, abs=20_000)


async def test_what_has_expired_goes_by_the_partition_and_the_transcript_stays(
    parley: Parley, months: Address, brief: Settings
) -> None:
    counts = await remove_expired(steps_of(parley), brief)

    assert await bounds(months) == [1 + 2 * WIDTH, 1 + 3 * WIDTH, 1 + 4 * WIDTH]
    assert counts["turn_events"] == 2 * 400
    rows = await count_rows(months, "turn_events", "turns", "messages")
    assert rows == {"turn_events": 400, "turns": 300, "messages": 600}
    assert (await remove_expired(steps_of(parley), brief))["turn_events"] == 0


async def test_a_partition_stays_while_a_turn_of_it_runs_or_a_row_of_it_is_younger(
    parley: Parley, months: Address, brief: Settings
) -> None:
    before = await bounds(months)
    await parley.sql("UPDATE turns SET status = 'running', finished_at = NULL WHERE id = 50")
    await parley.sql("UPDATE turn_events SET created_at = now() WHERE turn_id = 100060 AND seq = 3")

    await remove_expired(steps_of(parley), brief)

    assert await bounds(months) == before
    # Rows that are older still by the days of a partition go nevertheless, but not those of that turn.
    assert await parley.value("SELECT count(*) FROM turn_events WHERE turn_id <= 100") == 4
    await parley.sql("UPDATE turns SET status = 'answered', finished_at = now() WHERE id = 50")
    await remove_expired(steps_of(parley), brief)
    assert await bounds(months) == before[1:]
    assert await parley.value("SELECT count(*) FROM turn_events WHERE turn_id = 100060") == 4


async def test_few_turns_lose_what_has_expired_by_the_row(parley: Parley, address: Address, brief: Settings) -> None:
    await write_past(address, turns=600, days=60)

    counts = await remove_expired(steps_of(parley), brief)

    # The days, the two of a partition, and one.
    assert counts["turn_events"] == pytest.approx(4 * 280, abs=12)
    assert await bounds(address) == [1, 1 + WIDTH]


async def test_a_turn_without_a_partition_is_answered_told_and_followed_by_the_next_partition(
    parley: Parley, brief: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    address = parley.app.database.address
    await begin_at(address, 2 * WIDTH + 7)
    answer = await parley.ask("hello", event_id="event-1")

    await make_partitions(steps_of(parley), brief)

    assert answer.turn_id == 2 * WIDTH + 7
    assert "turns_without_partition" in capsys.readouterr().out
    assert (await bounds(address))[:3] == [1, 1 + WIDTH, 2 * WIDTH + 8]
    assert await parley.ask("hello", event_id="event-1") == answer
    await parley.ask("hello again")
    async with connected(address) as owner:
        events = "SELECT count(DISTINCT turn_id) FROM partitions.turn_events_{}"
        assert await owner.fetchval(events.format("default")) == 1
        assert await owner.fetchval(events.format(2 * WIDTH + 8)) == 1


async def test_turns_run_while_partitions_are_made_and_dropped(
    parley: Parley, months: Address, brief: Settings
) -> None:
    async def ask(person: int) -> int:
        return sum([bool((await parley.ask("hello", user=f"p{person}")).content) for _ in range(10)])

    async def maintain() -> None:
        while (await bounds(months))[0] <= WIDTH + 1:
            await remove_expired(steps_of(parley), brief)

    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(ask(person)) for person in range(4)]
        tasks.create_task(maintain())

    assert [task.result() for task in asking] == [10] * 4
    ends = "SELECT count(*) FROM turn_events WHERE turn_id > 300000 AND name = 'turn_complete'"
    assert await parley.value(ends) == 40


@pytest.fixture
async def reader(months: Address) -> AsyncIterator[asyncpg.Connection]:
    """Somebody who reads events in a transaction that goes on."""
    async with connected(months) as reader, reader.transaction():
        await reader.execute("SELECT FROM turn_events LIMIT 1")
        yield reader


async def test_nobody_waits_behind_a_partition_that_can_not_be_dropped_yet(
    parley: Parley, reader: asyncpg.Connection, months: Address
) -> None:
    async with connected(months, as_owner=False) as program:
        dropping = asyncio.create_task(program.fetchval(DROP))
        await until_somebody_waits(reader)
        answer = await parley.ask("hello")

        assert answer.content
        assert await dropping is None
        assert (await bounds(months))[0] == 1
        await reader.execute("ROLLBACK")
        assert await program.fetchval(DROP) == 400
        await reader.execute("BEGIN")


async def test_nobody_waits_behind_a_partition_that_can_not_be_made_yet(parley: Parley, address: Address) -> None:
    await begin_at(address, WIDTH)
    async with connected(address) as other, other.transaction():
        await other.execute("LOCK TABLE turns IN ROW EXCLUSIVE MODE")
        assert await make(address) == 0
        assert (await parley.ask("hello")).content

    assert await make(address) == len(TABLES)


async def test_what_dies_while_it_makes_or_drops_partitions_leaves_nothing_half(
    parley: Parley, months: Address
) -> None:
    before = await bounds(months)
    await begin_at(months, 4 * WIDTH)
    async with connected(months) as witness:
        program = await months.connect()
        await program.execute("BEGIN")
        assert (await program.fetchval(MAKE), await program.fetchval(DROP)) == (len(TABLES), 400)
        assert await witness.fetchval(LOCKED) == 1
        program.terminate()
        async with asyncio.timeout(30):
            while await witness.fetchval(LOCKED):  # noqa: ASYNC110  # a backend that ends tells nobody
                await asyncio.sleep(0.01)

    assert await bounds(months) == before
    assert (await parley.ask("hello")).content
    assert await make(months) == len(TABLES)


async def test_what_is_of_today_is_dropped_by_nobody(parley: Parley, months: Address) -> None:
    await parley.ask("hello")
    async with connected(months, as_owner=False) as program:
        for days in (0, -1000):
            await program.fetch("SELECT parley_drop_partition('turn_events', $1) FROM generate_series(1, 9)", days)
        for table in ("users", "partitions.turn_events_1", "turn_events; DROP TABLE turns", None):
            assert await program.fetchval("SELECT parley_drop_partition($1, 2)", table) is None

    assert (await count_rows(months, "turns"))["turns"] == 301
    assert await parley.value("SELECT count(*) FROM turn_events WHERE created_at > now() - interval '1 day'") > 4


@pytest.mark.parametrize("role", ["parley_app", "parley_admin", "parley_readonly"])
async def test_nobody_gets_at_a_partition_beside_its_table(months: Address, role: str) -> None:
    async with connected(months, role=role) as somebody:
        for attempt in (
            "SELECT FROM partitions.turn_events_1",
            "DELETE FROM partitions.turn_events_1",
            "DROP TABLE partitions.turn_events_1",
            "CREATE TABLE partitions.turn_events_own (id bigint)",
            "ALTER TABLE turn_events DETACH PARTITION partitions.turn_events_1",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await somebody.execute(attempt)


async def test_an_erased_person_is_gone_from_all_partitions(months: Address) -> None:
    async with connected(months) as owner:
        person = await owner.fetchval("SELECT user_id FROM turns WHERE id = 50")
        erasure = await owner.fetchval("SELECT parley_request_erasure($1)", person)
        turns = await owner.fetchval("SELECT array_agg(id) FROM turns WHERE user_id = $1", person)
        assert await owner.fetchval("SELECT parley_erase_person($1)", erasure)

        assert await owner.fetchval("SELECT count(*) FROM turn_events WHERE turn_id = ANY ($1)", turns) == 0
        assert await owner.fetchval("SELECT count(*) FROM turn_events") == 4 * (300 - len(turns))


async def test_partitions_vacuum_like_their_default_and_keep_their_foreign_key(months: Address) -> None:
    async with connected(months) as owner:
        options = await owner.fetch(
            "SELECT DISTINCT reloptions FROM pg_class WHERE relnamespace = 'partitions'::regnamespace AND relkind = 'r'"
        )
        assert [row["reloptions"] for row in options] == [
            ["autovacuum_vacuum_scale_factor=0.01", "autovacuum_vacuum_threshold=500"]
        ]
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await owner.execute("INSERT INTO turn_events (turn_id, seq, name) VALUES (400123, 0, 'message')")


FORGED = (2**63 - 2, 2**40, 0, -1)


@pytest.mark.parametrize(("turn_id", "is_owner"), [*((turn_id, False) for turn_id in FORGED), (FORGED[0], True)])
async def test_a_turn_with_an_id_that_was_not_given_out_is_refused_whoever_writes_it(
    parley: Parley, address: Address, turn_id: int, *, is_owner: bool
) -> None:
    await parley.ask("hello")
    forge = "INSERT INTO turns (id, conversation_id) SELECT $1, min(id) FROM conversations"
    async with connected(address, as_owner=is_owner) as connection:
        for statement in (forge, "UPDATE turns SET id = $1"):
            with pytest.raises(asyncpg.SerializationError, match="was not given out"):
                await connection.execute(statement, turn_id)

    await begin_at(address, WIDTH)
    assert await make(address) == len(TABLES)
    assert (await parley.ask("hello")).content


@pytest.mark.parametrize("table", TABLES)
async def test_a_row_of_a_turn_that_does_not_exist_makes_no_partition_overflow(address: Address, table: str) -> None:
    columns = {
        "full_results": "seq, content) VALUES ($1, 0, ''",
        "turn_contexts": "reasons) VALUES ($1, '{}'",
        "turn_events": "seq, name) VALUES ($1, 0, 'message'",
    }
    async with connected(address, as_owner=False) as program:
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await program.execute(f"INSERT INTO {table} (turn_id, {columns[table]})", 2**63 - 2)  # our own names
