"""A death counts against a message only when it ran alone, in its process and among the suspects of all processes."""

import asyncio
from contextlib import AsyncExitStack

from agent.queue.job import Job, Limits
from agent.queue.suspects import PRIORITIES, STRICT_PRIORITY, SUSPECT_PRIORITY, start_alone
from agent.queue.worker import Worker, statements
from shared.clock import SystemClock
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.held_turns import HeldTurns, working
from tests.support.parley import Parley, open_parley

TAKE = """
WITH worker AS (INSERT INTO workers DEFAULT VALUES RETURNING id)
UPDATE jobs SET priority = greatest(priority, :priority), worker_id = worker.id
FROM worker WHERE place_key = :place AND worker_id IS NULL RETURNING jobs.id, worker_id
"""
STATE = "SELECT place_key, deaths, priority FROM jobs WHERE worker_id IS NULL ORDER BY place_key"


async def take(parley: Parley, place: str) -> tuple[int, int]:
    """Let another process take the suspect of this place; return the ids of its job and of the worker."""
    (job,) = await parley.sql(TAKE, place=place, priority=SUSPECT_PRIORITY)
    return job.id, job.worker_id


async def die(parley: Parley, *workers: int) -> dict[str, tuple[int, int]]:
    """Let the jobs of dead workers be queued again; return their counted deaths and priorities by place."""
    async with parley.app.database.transaction() as session:
        await session.execute(statements.requeue_stale, {"dead": list(workers), "own": [], "lost": [], **PRIORITIES})
    return {row.place_key: (row.deaths, row.priority) for row in await parley.sql(STATE)}


async def test_of_two_suspects_that_ran_beside_each_other_no_death_is_counted(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        for user in ("ann", "bob"):
            await parley.accept("hello", user=user)
        one, two = [row.place_key for row in await parley.sql(STATE)]
        (first, dead), (second, other) = await take(parley, one), await take(parley, two)
        assert await start_alone(parley.app.database, first)
        assert await start_alone(parley.app.database, second)
        assert await die(parley, dead, other) == {one: (0, STRICT_PRIORITY), two: (0, STRICT_PRIORITY)}

        # From now on each runs only while the other does not, and what it does then counts.
        (first, dead), (second, other) = await take(parley, one), await take(parley, two)
        assert await start_alone(parley.app.database, first) is True
        assert await start_alone(parley.app.database, second) is False
        assert await die(parley, dead) == {one: (1, STRICT_PRIORITY)}
        assert await start_alone(parley.app.database, second) is True
        assert await start_alone(parley.app.database, first) is None
        assert (await die(parley, other))[two] == (1, STRICT_PRIORITY)


async def test_a_suspect_that_ran_alone_in_all_processes_is_counted_at_once(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        await parley.accept("hello")
        ((place, *_),) = await parley.sql(STATE)
        for deaths in (1, 2, 3):
            job, worker = await take(parley, place)
            assert await start_alone(parley.app.database, job)
            assert await die(parley, worker) == {place: (deaths, SUSPECT_PRIORITY)}


async def test_while_a_suspect_runs_another_worker_takes_the_jobs_of_its_process(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    turns, claims = HeldTurns(), asyncio.Queue[Job]()
    async with open_parley(settings, address, model, works=False) as parley, asyncio.timeout(60):
        database = parley.app.database
        near = Worker(database, SystemClock(), turns.run, limits=Limits(grace_seconds=0, held_seconds=3600))
        other = Worker(database, SystemClock(), claims.put)
        await parley.accept("suspect", user="ann")
        await parley.sql("UPDATE jobs SET priority = :priority", priority=SUSPECT_PRIORITY)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(working(near))
            await turns.taken.get()
            await stack.enter_async_context(working(other))
            # The sweep after the other's start shows that there is another one.
            while near.jobs.is_near:  # noqa: ASYNC110  # a sweep tells nobody
                await asyncio.sleep(0.05)
            parley.app.events.notifier.add_worker(near.jobs)

            accepted = await parley.accept("hello", user="bob")

            assert (await claims.get()).inbox_id == accepted.inbox_id
