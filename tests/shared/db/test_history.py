"""A database in a new history: ids leap, workers lose their turns, and nobody works before that is done."""

import asyncio
from datetime import UTC, datetime

import asyncpg

from shared.db.database import Address
from shared.db.history import History, Position, Witness
from shared.db.hosts import URL
from tests.support.connections import connected, run_as_owner, until_somebody_waits
from tests.support.given_database import GivenTables

# As if the tables were copied from a server that was promoted less often.
EARLIER = "UPDATE database_histories SET timeline = timeline - 1"
MADE = """
INSERT INTO conversations (platform, platform_channel_id, is_direct) VALUES ('test', 'a', true), ('test', 'b', true);
INSERT INTO turns (conversation_id, status, attempt, finished_at) VALUES
    (1, 'running', 2, NULL), (2, 'answered', 1, now());
INSERT INTO jobs (place_key, inbox_id, person, worker_id) VALUES
    ('a', 1, 'ann', 7), ('b', 2, 'bob', NULL), ('c', 3, 'cid', 7);
"""
SECOND_TRY = """
SELECT count(*) FROM pg_stat_activity
WHERE query LIKE '%parley_note_history%' AND xact_start < query_start AND pid <> pg_backend_pid()
"""


async def until(connection: asyncpg.Connection, question: str) -> None:
    """Return when the server answers this with yes."""
    async with asyncio.timeout(60):
        while not await connection.fetchval(question):  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0.02)


async def test_in_a_new_history_ids_leap_and_running_turns_and_jobs_are_taken_from_their_workers(
    address: Address, owner: asyncpg.Connection
) -> None:
    await owner.execute(MADE)
    await owner.execute(EARLIER)
    async with connected(address, role="parley_app") as first, connected(address, role="parley_app") as second:
        assert await second.fetchval("SELECT count(*) FROM database_histories") == 2
        turns = await first.fetch("SELECT attempt, attempt - 1 - handovers FROM turns ORDER BY id")
        # The takeover that follows makes up for the failure that is missing here.
        assert [tuple(turn) for turn in turns] == [(3, 0), (1, 0)]
        jobs = await first.fetch("SELECT place_key, id > 1000000 AS is_new, worker_id FROM jobs ORDER BY id")
        assert [tuple(job) for job in jobs] == [("a", True, None), ("b", True, None), ("c", True, None)]
        assert await first.fetchval("SELECT nextval('turns_id_seq')") > 1_000_000
        leaps = "SELECT min(last_value) FROM pg_sequences WHERE schemaname = 'public'"
        assert await owner.fetchval(leaps) >= 1_000_000


async def test_an_owner_who_is_no_superuser_leaves_the_sequences_of_others_alone(
    postgres: URL, given: GivenTables
) -> None:
    async with given.one() as address:
        superuser = Address(postgres.set(database=address.url.database), is_embedded=True)
        await run_as_owner(superuser, "CREATE SEQUENCE public.of_others")
        await run_as_owner(address, EARLIER)
        async with connected(address, role="parley_app") as program, connected(superuser) as owner:
            assert await program.fetchval("SELECT nextval('turns_id_seq')") > 1_000_000
            assert await owner.fetchval("SELECT nextval('public.of_others')") == 1


async def test_a_new_history_may_take_longer_than_a_statement(address: Address, owner: asyncpg.Connection) -> None:
    async with connected(address) as observer:
        await owner.execute(EARLIER)
        async with owner.transaction():
            await owner.execute("SELECT pg_advisory_xact_lock(hashtext('parley history'))")
            opening = asyncio.create_task(address.connect(statement_seconds=0.3))
            await until_somebody_waits(owner)
            # The first try is over: the second one runs in a transaction.
            await until(observer, SECOND_TRY)
    connection = await opening
    assert await connection.fetchval("SELECT count(*) FROM database_histories") == 2
    assert await connection.fetchval("SHOW statement_timeout") == "300ms"
    await connection.close()


def test_a_message_of_before_is_remembered_over_two_failovers_within_seconds() -> None:
    at = datetime(2026, 11, 26, tzinfo=UTC)
    witness = Witness()
    witness.note(History(1, "one", timeline=1, created_at=at), Position(1, at))
    witness.messages.append((1.0, 30))
    for timeline in (2, 3):
        witness.note(History(timeline, "one", timeline=timeline, created_at=at), Position(1, at))

    assert witness.former_messages == {30}
    with witness.taken() as failovers:
        assert [(evidence.after.timeline, list(evidence.messages)) for evidence in failovers] == [(2, [30]), (3, [])]
