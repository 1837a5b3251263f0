"""The slots of a worker, and the end of its jobs."""

import asyncio
from collections.abc import Sequence

from procrastinate.jobs import Status
from sqlalchemy import text
from structlog.testing import capture_logs

from agent.queue.connector import build_queue, opened
from agent.queue.inbox import QUEUE
from agent.queue.job import Bounds, Slots
from agent.queue.jobs import FairJobs
from shared.db.database import Database
from tests.support.parley import Parley

JOB = text("""
INSERT INTO procrastinate_jobs (queue_name, task_name, lock) VALUES (:queue, 'task', CAST(gen_random_uuid() AS text))
RETURNING id
""")


async def test_as_many_slots_are_reserved_as_are_free() -> None:
    slots = Slots(Bounds(running=3, per_person=2, per_server=2))

    assert await slots.reserve(2) == 2
    assert await slots.reserve(2) == 1
    assert await slots.reserve(2) == 0
    slots.release(3)
    assert await slots.reserve(1) == 1


async def test_persons_and_servers_are_counted_until_a_job_of_theirs_ends() -> None:
    slots = Slots(Bounds(running=10, per_person=1, per_server=2))
    await slots.reserve(2)
    slots.assign(1, "test ann", "test s")
    slots.assign(2, "test bob", "test s")

    assert slots.counts["persons"] == '{"test ann": 1, "test bob": 1}'
    assert slots.counts["servers"] == '{"test s": 2}'
    assert slots.end(1)
    assert slots.counts["persons"] == '{"test bob": 1}'
    assert slots.counts["servers"] == '{"test s": 1}'
    assert slots.jobs == {2}


async def test_a_slot_that_is_released_serves_another_job_and_is_waited_for_afterwards() -> None:
    slots = Slots(Bounds(running=1))
    await slots.reserve(1)
    slots.assign(1, "test ann", None)
    first = slots.of(1)

    async with first.released():
        assert await slots.reserve(1) == 1
        slots.assign(2, "test bob", None)
        returning = asyncio.create_task(first.enter())
        await asyncio.sleep(0)
        assert not returning.done()
        slots.end(2)
        await returning

    assert await slots.reserve(1) == 0
    slots.end(1)
    assert await slots.reserve(1) == 1


async def test_a_turn_goes_on_without_a_slot_when_none_becomes_free() -> None:
    slots = Slots(Bounds(running=1, return_seconds=0.01))
    await slots.reserve(1)
    slots.assign(1, "test ann", None)

    async with slots.of(1).released():
        assert await slots.reserve(1) == 1
        slots.assign(2, "test bob", None)

    slots.end(1)
    assert await slots.reserve(1) == 0
    slots.end(2)
    assert await slots.reserve(2) == 1


async def test_a_job_whose_message_was_removed_has_a_slot_without_a_limit() -> None:
    slots = Slots(Bounds(running=1))

    async with slots.of(7).released():
        assert not slots.end(7)


async def test_jobs_that_end_at_once_are_finished_together_whoever_has_taken_over_one_of_them(parley: Parley) -> None:
    rows = await parley.sql(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, lock, status)"
        " SELECT 'elsewhere', 'task', number, 'doing' FROM generate_series(1, 20) AS number RETURNING id"
    )
    ids, queue = [row.id for row in rows], build_queue(parley.app.database)
    async with opened(queue):
        jobs = FairJobs(queue.connector, Slots(Bounds()))
        await finish(jobs, ids[:10])
        together = "SELECT count(DISTINCT xmin::text) FROM procrastinate_jobs WHERE status = 'succeeded'"
        assert await parley.value(together) <= 2
        await parley.sql("UPDATE procrastinate_jobs SET status = 'failed' WHERE id = :id", id=ids[15])
        with capture_logs() as lines:
            await finish(jobs, ids[10:])

    assert await parley.value("SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'") == 19
    assert [line["event"] for line in lines] == ["job_was_taken_over"]


async def finish(jobs: FairJobs, ids: Sequence[int]) -> None:
    await asyncio.gather(*(jobs.finish_job_by_id_async(id_, Status.SUCCEEDED, delete_job=False) for id_ in ids))


async def test_after_the_last_job_a_worker_asks_again_when_it_is_told_of_another_or_wakes_up(
    database: Database,
) -> None:
    queue = build_queue(database)
    async with opened(queue):
        jobs = FairJobs(queue.connector, Slots(Bounds()))
        worker_id = await jobs.register_worker()
        first, second = await add_job(database), await add_job(database)
        assert [await fetched(jobs, worker_id) for _ in range(3)] == [first, second, None]

        third = await add_job(database)
        assert await fetched(jobs, worker_id) == third
        fourth = await add_job(database)
        assert [await fetched(jobs, worker_id) for _ in range(2)] == [None, fourth]

        fifth = await add_job(database)
        jobs.forget()
        assert await fetched(jobs, worker_id) == fifth

        sixth, notice = await add_job(database), asyncio.Event()

        async def tell(**_arguments: object) -> None:
            notice.set()

        listening = asyncio.create_task(jobs.listen_for_jobs(on_notification=tell))
        while not notice.is_set():  # the connection that listens is opened
            await jobs.wake()
            await asyncio.sleep(0)
        assert await fetched(jobs, worker_id) == sixth
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def add_job(database: Database) -> int:
    async with database.transaction() as session:
        return int((await session.execute(JOB, {"queue": QUEUE})).scalar_one())


async def fetched(jobs: FairJobs, worker_id: int) -> int | None:
    job = await jobs.fetch_job(None, worker_id)
    return job.id if job is not None else None
