"""The slots of a worker, and the end of its jobs."""

import asyncio

import asyncpg
import pytest

from agent.queue.inbox import give_up
from agent.queue.job import Bounds, Job, Limits, Slots
from agent.queue.jobs import FREE_LOOKS, PAUSE_SECONDS, JobQueue, Runner
from agent.turn.open import open_turn, prepare, resume
from shared.db.database import Address
from shared.errors import Superseded
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.parley import open_parley

JOBS = 10


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
    first = slots.assign(1, "test ann", "test s")
    slots.assign(2, "test bob", "test s")

    assert slots.counts["persons"] == '{"test ann": 1, "test bob": 1}'
    assert slots.counts["servers"] == '{"test s": 2}'
    assert slots.end(first)
    assert slots.counts["persons"] == '{"test bob": 1}'
    assert slots.counts["servers"] == '{"test s": 1}'
    assert slots.jobs == {2}


async def test_a_slot_that_is_released_serves_another_job_and_is_waited_for_afterwards() -> None:
    slots = Slots(Bounds(running=1))
    await slots.reserve(1)
    first = slots.assign(1, "test ann", None)

    async with first.released():
        assert await slots.reserve(1) == 1
        second = slots.assign(2, "test bob", None)
        returning = asyncio.create_task(first.enter())
        await asyncio.sleep(0)
        assert not returning.done()
        slots.end(second)
        await returning

    assert await slots.reserve(1) == 0
    slots.end(first)
    assert await slots.reserve(1) == 1


async def test_a_turn_goes_on_without_a_slot_when_none_becomes_free() -> None:
    slots = Slots(Bounds(running=1, return_seconds=0.01))
    await slots.reserve(1)
    first = slots.assign(1, "test ann", None)

    async with first.released():
        assert await slots.reserve(1) == 1
        second = slots.assign(2, "test bob", None)

    slots.end(first)
    assert await slots.reserve(1) == 0
    slots.end(second)
    assert await slots.reserve(2) == 1


async def test_two_jobs_of_one_id_as_after_a_crash_of_the_server_have_a_slot_each() -> None:
    slots = Slots(Bounds(running=2))
    await slots.reserve(2)
    lost, new = slots.assign(7, "test ann", None), slots.assign(7, "test bob", None)

    slots.end(lost)

    assert slots.jobs == {7}
    assert slots.counts["persons"] == '{"test bob": 1}'
    slots.end(new)
    assert await slots.reserve(2) == 2


async def test_jobs_that_end_at_once_are_finished_together_whoever_has_taken_over_one_of_them(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        queue = JobQueue(parley.app.database, Slots(Bounds()))
        # Further messages of a place: its next job shows in which transaction the one before has ended.
        for number in range(2 * JOBS):
            await parley.accept("hello", user=f"u{number}", channel=f"c{number % JOBS}")
        jobs, may_have_more = await queue.take(2 * JOBS)
        assert (len(jobs), may_have_more) == (JOBS, False)
        await parley.sql("UPDATE jobs SET id = DEFAULT WHERE id = :id", id=jobs[-1].id)
        await parley.sql(
            "UPDATE inbox SET status = 'answered' WHERE id <= (SELECT min(id) + :jobs - 1 FROM inbox)", jobs=JOBS
        )

        next_turns = await asyncio.gather(*(queue.finish(job.id) for job in jobs))

        assert next_turns == [True] * (JOBS - 1) + [None]
        together = "SELECT count(DISTINCT xmin::text) FROM jobs WHERE worker_id IS NULL"
        assert await parley.value(together) <= 2


async def test_a_job_that_is_given_back_waits_for_another_worker_under_another_id(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        accepted = await parley.accept("hello")
        first, second = (JobQueue(parley.app.database, Slots(Bounds())) for _ in range(2))
        ((job,), _) = await first.take(1)
        assert await second.take(1) == ([], False)
        first_id = first.worker_id

        await first.leave()

        ((again,), _) = await second.take(1)
        assert (again.inbox_id, again.deaths) == (accepted.inbox_id, None)
        assert again.id != job.id
        assert await first.finish(job.id) is None
        assert await second.finish(again.id)
        first.worker_id = first_id
        first.slots.end(job.slot)
        with pytest.raises(asyncpg.RaiseError, match="held for dead"):
            await first.take(1)


async def test_no_more_jobs_are_taken_than_there_are_slots(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        for number in range(5):
            await parley.accept("hello", user=f"u{number}")
        queue = JobQueue(parley.app.database, Slots(Bounds(running=3)))

        jobs, may_have_more = await queue.take(5)
        assert (len(jobs), may_have_more) == (3, True)
        assert await queue.take(5) == ([], False)
        assert queue.slots.end(jobs[0].slot)
        assert len((await queue.take(5))[0]) == 1


async def test_a_worker_that_resumes_late_gives_up_no_message_and_takes_no_turn_back(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        services = parley.app.turns
        await parley.accept("hello")
        ((job,), _) = await JobQueue(parley.app.database, Slots(Bounds())).take(1)
        assert await open_turn(services, job) is not None
        async with parley.app.database.statement() as session:
            opening = await prepare(services, session, job=job, began=0.0)
            assert opening is not None
        # As the sweep of another worker does, which held this one for dead.
        await parley.sql("UPDATE jobs SET id = DEFAULT, worker_id = NULL")

        with pytest.raises(Superseded):
            await resume(services, opening)
        async with parley.app.database.transaction() as session:
            await give_up(session, job, "parked")

        assert await parley.sql("SELECT attempt, status FROM turns") == [(1, "running")]
        assert await parley.value("SELECT status FROM inbox") == "claimed"


class CountingQueue(JobQueue):
    """Counts how often it was looked for jobs."""

    looks = 0

    async def take(self, most: int) -> tuple[list[Job], bool]:
        self.looks += 1
        return await super().take(most)


async def test_notes_of_jobs_that_there_are_not_cost_fifty_looks_a_second(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        queue, clock = CountingQueue(parley.app.database, Slots(Bounds())), asyncio.get_running_loop().time
        runner = Runner(queue, run_nothing, clock=parley.app.clock, limits=Limits())
        worker = asyncio.create_task(runner.take_jobs())
        while queue.looks <= FREE_LOOKS:
            runner.wake()
            await asyncio.sleep(0)
        began, before = clock(), queue.looks
        while queue.looks < before + 10:
            runner.wake()
            await asyncio.sleep(0)

        assert clock() - began >= 9 * PAUSE_SECONDS
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await runner.leave()


async def run_nothing(_job: Job) -> None:
    raise AssertionError("there is no job")


async def test_a_worker_that_may_not_take_jobs_registers_only_once_it_may(
    settings: Settings, address: Address, model: OpenAIStub, owner: asyncpg.Connection
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        accepted = await parley.accept("hello")
        queue = JobQueue(parley.app.database, Slots(Bounds()))
        await owner.execute("REVOKE UPDATE ON jobs FROM parley_app")

        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await queue.take(1)
        await queue.leave()

        assert await parley.value("SELECT count(*) FROM workers") == 0
        await owner.execute("GRANT UPDATE ON jobs TO parley_app")
        ((job,), _) = await queue.take(1)
        assert job.inbox_id == accepted.inbox_id
