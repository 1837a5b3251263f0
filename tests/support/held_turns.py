"""Workers whose turns never end, for what happens meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.queue.job import Job
from agent.queue.worker import Worker


class HeldTurns:
    """What runs the jobs of a worker, none of them to its end; `taken` has those that it has begun."""

    def __init__(self) -> None:
        self.taken = asyncio.Queue[Job]()

    async def run(self, job: Job) -> bool:
        """Begin a job, and write nothing."""
        await self.taken.put(job)
        await asyncio.Event().wait()
        return False


@asynccontextmanager
async def working(*workers: Worker) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Let workers run for the block."""
    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
