"""The slots of a worker, and the end of its jobs."""

import asyncio
from collections.abc import Sequence

from procrastinate.jobs import Status
from structlog.testing import capture_logs

from agent.queue.connector import build_queue, opened
from agent.queue.jobs import Bounds, FairJobs, Slots
from tests.support.parley import Parley


async def test_as_many_slots_are_reserved_as_are_free() -> None:
    slots = Slots(Bounds(running=3, per_person=2, per_server=2))

    assert await slots.reserve(2) == 2
    assert await slots.reserve(2) == 1
    assert await slots.reserve(2) == 0
    slots.release(3)
    assert await slots.reserve(1) == 1


async def test_a_server_that_is_nearly_full_keeps_a_reservation_small() -> None:
    slots = Slots(Bounds(running=10, per_person=5, per_server=3))
    slots.release(await slots.reserve(1) - 1)
    slots.assign(1, "test ann", "test s")

    assert await slots.reserve(8) == 2


async def test_persons_and_servers_are_full_until_a_job_of_theirs_ends() -> None:
    slots = Slots(Bounds(running=10, per_person=1, per_server=2))
    await slots.reserve(2)
    slots.assign(1, "test ann", "test s")
    slots.assign(2, "test bob", "test s")

    assert (slots.full_persons, slots.full_servers) == (["test ann", "test bob"], ["test s"])
    assert slots.end(1)
    assert (slots.full_persons, slots.full_servers) == (["test bob"], [])
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
    made = await parley.sql(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, lock, status)"
        " SELECT 'elsewhere', 'task', number, 'doing' FROM generate_series(1, 20) AS number RETURNING id"
    )
    ids, queue = [row.id for row in made], build_queue(parley.app.database)
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
    await asyncio.gather(*(jobs.finish_job_by_id_async(each, Status.SUCCEEDED, delete_job=False) for each in ids))
