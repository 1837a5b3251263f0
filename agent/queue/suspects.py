"""Suspects: jobs whose worker died. One of them may have killed it, so each is run again alone in its process.

A suspect has the highest priority, so that it is the next job of its place. `attempts` of its row counts how often it
was started alone, and thus, because an ended job leaves the queue, how often its worker died while it ran alone.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import text

from shared.db.database import Database

SUSPECT_PRIORITY = 1_000_000
# After so many deaths of its worker while a message ran alone, its turn is parked; one more, and it is not even opened.
MAX_DEATHS = 3

START_ALONE = text("""
UPDATE procrastinate_jobs SET attempts = attempts + 1 WHERE id = :job_id AND status = 'doing' RETURNING id
""")


async def start_alone(database: Database, job_id: int) -> bool:
    """Record that a suspect starts alone; return False when another worker has taken over its job."""
    async with database.transaction() as session:
        return (await session.execute(START_ALONE, {"job_id": job_id})).one_or_none() is not None


class Gate:
    """Lets jobs of one process run beside each other, and suspects one at a time with nothing beside them."""

    def __init__(self) -> None:
        self._running = 0
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._suspects = asyncio.Lock()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Run the block beside others, as soon as no suspect runs or waits for an empty process."""
        while not self._is_open.is_set():
            await self._is_open.wait()
        self._running += 1
        self._is_empty.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._is_empty.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Run the block with nothing beside it; between two suspects, the jobs that wait for them may start."""
        async with self._suspects:
            self._is_open.clear()
            try:
                await self._is_empty.wait()
                yield
            finally:
                self._is_open.set()
