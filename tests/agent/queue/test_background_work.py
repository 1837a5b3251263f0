"""Background work leaves the machine to turns."""

import asyncio
from functools import partial

import asyncpg

from agent.queue.job import Job
from agent.queue.worker import PeriodicTask, Worker
from shared.clock import SystemClock
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.parley import open_parley


async def test_work_that_can_wait_begins_when_no_turn_runs(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    ran: asyncio.Queue[str] = asyncio.Queue()
    start, ending = asyncio.Event(), asyncio.Event()

    async def run_turn(_job: Job) -> None:
        start.set()
        await ending.wait()

    tasks = (
        PeriodicTask("steady", partial(ran.put, "steady"), 0.05),
        PeriodicTask("patient", partial(ran.put, "patient"), 0.05, can_wait=True),
    )
    async with open_parley(settings, address, model, works=False) as parley, asyncio.timeout(30):
        await parley.accept("hello")
        working = asyncio.create_task(Worker(parley.app.database, SystemClock(), run_turn, periodic_tasks=tasks).run())
        try:
            await start.wait()
            before = ran.qsize()
            during = [await ran.get() for _ in range(before + 3)][before:]
            ending.set()
            while await ran.get() != "patient":
                pass
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    assert during == ["steady"] * 3


async def test_a_table_that_can_t_be_read_keeps_no_other_task_from_its_work(
    settings: Settings, address: Address, model: OpenAIStub, owner: asyncpg.Connection
) -> None:
    ran: asyncio.Queue[str] = asyncio.Queue()
    task = PeriodicTask("outbox sweeper", partial(ran.put, "outbox sweeper"), 0.05, waits=True)
    jobs: asyncio.Queue[Job] = asyncio.Queue()
    async with open_parley(settings, address, model, works=False) as parley, asyncio.timeout(30):
        await owner.execute("REVOKE SELECT ON unremembered_turns FROM parley_app")
        worker = Worker(parley.app.database, SystemClock(), jobs.put, periodic_tasks=[task])
        working = asyncio.create_task(worker.run())
        try:
            assert await ran.get() == "outbox sweeper"
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
