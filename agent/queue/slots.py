"""What runs beside what: the slots of a worker, and suspects, which run with nothing beside them.

Slots bound how many turns run at once, in all and for each person and server. Suspects are jobs whose worker died. One
of them may have killed it, so each is run again alone in its process. A suspect has the highest priority, so that it is
the next job of its place. `attempts` of its row counts how often it was started alone, and thus, because an ended job
leaves the queue, how often its worker died while it ran alone.

Suspects of several processes run at the same time. One may have killed the worker of another, for instance by taking
the machine's memory, so a death while others ran is not counted; the suspect is then strict: it runs only while no
other suspect runs in any process. The column `scheduled_at` says that a suspect runs, and not only waits.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from sqlalchemy import text

from shared.db.database import Database

SUSPECT_PRIORITY = 1_000_000
STRICT_PRIORITY = SUSPECT_PRIORITY + 1
# Between two tries of a suspect that waits for those of other processes.
WAIT_SECONDS = 1.0
# After so many deaths of its worker while a message ran alone, its turn is parked; one more, and it is not even opened.
MAX_DEATHS = 3

LOCK = text("SELECT pg_advisory_xact_lock(hashtext('parley suspects'))")
START_ALONE = text(f"""
WITH ours AS (SELECT id, priority FROM procrastinate_jobs WHERE id = :job_id AND status = 'doing'),
started AS (
    UPDATE procrastinate_jobs AS job SET attempts = attempts + 1, scheduled_at = now() FROM ours
    WHERE job.id = ours.id AND NOT EXISTS (
        SELECT FROM procrastinate_jobs AS other
        WHERE other.status = 'doing' AND other.scheduled_at IS NOT NULL AND other.id <> ours.id
          AND other.priority >= {SUSPECT_PRIORITY}
          AND (other.priority = {STRICT_PRIORITY} OR ours.priority = {STRICT_PRIORITY})
    )
    RETURNING job.id
)
SELECT EXISTS (SELECT FROM started) AS has_started FROM ours
""")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many turns one worker has in work at once.

    `running` counts those that hold a slot. `per_person` and `per_server` also count those that have released their
    slot while they wait for something else than a model, such as a budget or a download. A turn that comes back from
    such a wait gets a slot within `return_seconds`, or goes on without one.
    """

    running: int = 200
    per_person: int = 10
    per_server: int = 100
    return_seconds: float = 5.0


class Slot:
    """The slot of one job. Without `running` it is unlimited, as for the turns of delegated tasks."""

    def __init__(self, running: asyncio.Semaphore | None = None, return_seconds: float = 0.0) -> None:
        self._running = running
        self._return_seconds = return_seconds
        self._is_held = running is not None

    async def enter(self) -> None:
        """Wait for a free slot, unless this job holds one; go on without one when none becomes free in time."""
        if self._running is None or self._is_held:
            return
        # Not for ever: the jobs that hold the slots may themselves wait until this one ends, as suspects do.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._return_seconds):
                await self._running.acquire()
                self._is_held = True

    def leave(self) -> None:
        """Give the slot to another turn, if this job holds one."""
        if self._running is not None and self._is_held:
            self._is_held = False
            self._running.release()

    @asynccontextmanager
    async def released(self) -> AsyncIterator[None]:
        """Leave the slot for the block, and wait for one after it; not after an exception, which ends the turn."""
        self.leave()
        yield
        await self.enter()


@dataclass(frozen=True, slots=True)
class _Holder:
    slot: Slot
    person: str
    server: str | None


class Slots:
    """The slots of all jobs of one worker."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._running = asyncio.Semaphore(bounds.running)
        self._holders: dict[int, _Holder] = {}
        self._persons: Counter[str] = Counter()
        self._servers: Counter[str] = Counter()

    @property
    def jobs(self) -> frozenset[int]:
        """Return the ids of the jobs in work."""
        return frozenset(self._holders)

    @property
    def full_persons(self) -> list[str]:
        """Return the persons who may not have one more turn now."""
        return [person for person, count in self._persons.items() if count >= self._bounds.per_person]

    @property
    def full_servers(self) -> list[str]:
        """Return the servers that may not have one more turn now."""
        return [server for server, count in self._servers.items() if count >= self._bounds.per_server]

    async def reserve(self, most: int) -> int:
        """Reserve slots for new jobs, without waiting; return how many.

        There are at most `most`, and so few that they fit into each server that is not full.
        """
        rooms = [room for count in self._servers.values() if (room := self._bounds.per_server - count) > 0]
        count = 0
        while count < min(most, *rooms, self._bounds.per_server) and not self._running.locked():
            await self._running.acquire()
            count += 1
        return count

    def release(self, count: int) -> None:
        """Release reserved slots."""
        for _ in range(count):
            self._running.release()

    def assign(self, job_id: int, person: str, server: str | None) -> None:
        """Give one reserved slot to a job."""
        self._holders[job_id] = _Holder(Slot(self._running, self._bounds.return_seconds), person, server)
        self._persons[person] += 1
        if server is not None:
            self._servers[server] += 1

    def of(self, job_id: int) -> Slot:
        """Return the slot of a job; one without a limit when its message has been removed."""
        holder = self._holders.get(job_id)
        return holder.slot if holder else Slot()

    def end(self, job_id: int) -> bool:
        """Free the slot of a job that has ended, if it has one; return whether other jobs may have waited for it."""
        holder = self._holders.pop(job_id, None)
        if holder is None:
            return False
        is_awaited = (
            self._running.locked()
            or self._persons[holder.person] >= self._bounds.per_person
            or (holder.server is not None and self._servers[holder.server] >= self._bounds.per_server)
        )
        holder.slot.leave()
        _decrease(self._persons, holder.person)
        if holder.server is not None:
            _decrease(self._servers, holder.server)
        return is_awaited


def _decrease(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


async def start_alone(database: Database, job_id: int) -> bool | None:
    """Record that a suspect starts alone; return False if it has to wait for others, None if its job was taken over."""
    async with database.transaction() as session:
        await session.execute(LOCK)
        row = (await session.execute(START_ALONE, {"job_id": job_id})).one_or_none()
        return None if row is None else bool(row.has_started)


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
