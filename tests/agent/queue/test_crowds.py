"""A crowd in one place, on one server or of one person does not keep others waiting, however long its queue is."""

import asyncio
import json
from functools import partial
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text

from agent.queue.job import MAX_COALESCED, Bounds, Limits
from agent.queue.worker import Worker
from agent.turn.open import statements
from agent.turn.run import run_turn
from agent.turn.running import Cancellations
from shared.clock import SystemClock
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body, last_user_text
from tests.support.parley import Parley, open_parley

pytestmark = pytest.mark.settings(
    default_guest_token_budget=1_000_000_000, max_turns=20, max_turns_per_person=10, max_turns_per_server=5
)

# Messages as an adapter stores them, many at once; each place gets its job as with every other message.
STORE = """
WITH stored AS (
    INSERT INTO inbox (adapter, platform, platform_event_id, place_key, platform_server_id, platform_channel_id,
                       platform_user_id, content, sent_at)
    SELECT 'http', 'test', 'crowd-' || number,
           'test ' || coalesce(CAST(:server AS text), '') || ' c' || number % CAST(:places AS int),
           CAST(:server AS text), 'c' || number % CAST(:places AS int),
           'u' || number % CAST(:people AS int), 'crowd', now() - interval '1 hour'
    FROM generate_series(0, CAST(:messages AS int) - 1) AS number RETURNING id, place_key
)
SELECT count(parley_queue_turn(id)) FROM (SELECT min(id) AS id FROM stored GROUP BY place_key) AS first
"""
TAKE = """
WITH worker AS (INSERT INTO workers DEFAULT VALUES RETURNING id)
SELECT job.* FROM worker CROSS JOIN LATERAL parley_take_jobs(
    p_worker_id => worker.id, p_limit => 16, p_persons => '{}',
    p_servers => CAST(:full AS jsonb), p_per_person => 10, p_per_server => 5) AS job
"""
FINISH = "SELECT * FROM parley_finish_jobs(CAST(ARRAY[:job_id] AS bigint[]))"


async def store(parley: Parley, messages: int, **spread: Any) -> None:
    """Store a crowd's messages: in so many `places` of a `server`, of so many `people`."""
    parameters = {"server": "crowded", "places": 1, "people": messages, "messages": messages} | spread
    await parley.sql(STORE, **parameters)


async def count_buffers(parley: Parley, statement: str, **parameters: Any) -> int:
    """Return how many pages a statement reads; it is undone."""
    async with parley.app.database.transaction() as session:
        savepoint = await session.begin_nested()
        explain = text(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}")
        plan = (await session.execute(explain, parameters)).scalar_one()[0]["Plan"]
        await savepoint.rollback()
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


@pytest.mark.parametrize(
    ("spread", "full"),
    [
        ({"places": 1}, {}),
        ({"places": 500}, {"test crowded": 5}),
        ({"places": 500, "people": 1}, {"test crowded": 5}),
    ],
    ids=["one place", "500 places of a full server", "one person"],
)
async def test_a_claim_reads_as_much_with_twenty_times_as_many_messages(
    settings: Settings, address: Address, model: OpenAIStub, spread: dict[str, Any], full: dict[str, int]
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        await store(parley, 1_000, **spread)
        few = await count_buffers(parley, TAKE, full=json.dumps(full))
        await parley.sql("DELETE FROM inbox")
        await parley.sql("DELETE FROM jobs")
        await store(parley, 20_000, **spread)
        many = await count_buffers(parley, TAKE, full=json.dumps(full))

    assert 0 < many <= 1.5 * few + 100


async def test_a_turn_reads_as_much_with_twenty_times_as_many_messages_behind_it(
    settings: Settings, address: Address, model: OpenAIStub, owner: asyncpg.Connection
) -> None:
    starts, ended = [], []
    async with open_parley(settings, address, model, works=False) as parley:
        for messages in (1_000, 20_000):
            # Deleted rows would be read, too.
            await owner.execute("TRUNCATE inbox, jobs CASCADE")
            await store(parley, messages, people=20)
            await parley.sql("ANALYZE inbox")
            (job,) = await parley.sql("UPDATE jobs SET worker_id = 1 RETURNING id, inbox_id")
            values = {"job_id": job.id, "messages": MAX_COALESCED * 2}
            starts.append(await count_buffers(parley, statements.prepare_turn.text, **values))
            ended.append(await count_buffers(parley, FINISH, job_id=job.id))

    for few, many in (starts, ended):
        assert 0 < many <= 1.5 * few + 100


@pytest.mark.parametrize(
    "spread",
    [
        {"messages": 20_000, "places": 1},
        {"messages": 10_000, "places": 500},
        {"messages": 500, "places": 500, "people": 1, "server": None},
    ],
    ids=["20,000 in one place", "10,000 in 500 places of a server", "500 of one person"],
)
async def test_others_are_answered_beside_a_crowd(
    settings: Settings, address: Address, model: OpenAIStub, spread: dict[str, Any]
) -> None:
    go, hold = asyncio.Event(), asyncio.Event()

    async def answer(body: Body, _number: int) -> Answer:
        if "crowd" in last_user_text(body):
            hold.set()
            await go.wait()
        return Answer("heard")

    model.play(answer)
    async with open_parley(settings, address, model, works=False) as idle:
        await store(idle, **spread)
    async with open_parley(settings, address, model) as parley:
        await asyncio.wait_for(hold.wait(), 60)
        for number in range(5):
            assert (await parley.ask("hello", user=f"ann-{number}", server=f"other-{number}")).content == "heard"
        assert await parley.value("SELECT count(*) FROM inbox WHERE content = 'crowd' AND status = 'answered'") == 0
        go.set()


async def test_the_end_of_a_turn_starts_the_next_of_the_same_person_although_no_worker_polls(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("heard")] * 100)
    async with open_parley(settings, address, model, works=False) as parley, asyncio.timeout(60):
        await store(parley, 100, places=100, people=1, server=None)
        run = partial(run_turn, parley.app.turns, cancellations=Cancellations())
        limits = Limits(bounds=Bounds(running=20, per_person=10, per_server=5), poll_seconds=3600)
        worker = Worker(parley.app.database, SystemClock(), run, limits=limits)
        working = asyncio.create_task(worker.run())
        try:
            while await parley.value("SELECT count(*) FROM inbox WHERE status = 'answered'") < 100:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


async def test_a_message_that_comes_while_the_turn_of_its_place_ends_is_answered(parley: Parley) -> None:
    parley.model.play([Answer("heard")] * 200)

    replies = await asyncio.gather(
        *(parley.ask(f"{number}", user=f"u{number}", server="s", channel="one") for number in range(60))
    )

    assert {reply.error for reply in replies} == {None}
    statement = "SELECT count(*) FROM jobs"
    async with asyncio.timeout(30):
        while await parley.value(statement):  # noqa: ASYNC110  # the worker notifies nobody
            await asyncio.sleep(0.05)
    # Without a job for each message: those that came while one was in work share the next one.
    assert await parley.value("SELECT count(*) FROM inbox WHERE status = 'answered'") == 60
