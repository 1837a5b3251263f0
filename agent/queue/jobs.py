"""Takes the jobs for which there is room, and runs each of them to the end of its turn.

Slots bound how many turns run at once, in all and for each person and server. Suspects run with nothing beside them.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec.structs import replace

from agent.prompts import prompts
from agent.queue import inbox
from agent.queue.job import Claim, Job, Limits, Slots
from agent.queue.suspects import MAX_DEATHS, SUSPECT_PRIORITY, WAIT_SECONDS, start_alone
from shared.clock import Clock
from shared.db.batching import BatchLoader
from shared.db.database import Database, DatabaseLost, retry_on_lost_db
from shared.db.errors import server_errors, sqlstate_of
from shared.db.migrations import newest_revision
from shared.db.statements import load_statements
from shared.errors import Superseded
from shared.log import get_logger
from shared.redaction import redact_text

statements = load_statements(__file__)

MAX_ERRORS = 4
MAX_TAKEN = 16  # jobs in one statement
# Seconds between retries; short, because a waiting job holds its place.
DATABASE_WAITS = (0.1, 0.5, 1.0, 2.0)
# With fewer jobs in work a worker takes those of its own process, whose readers it can answer without the database.
NEAR_JOBS = 4
# For so long after a job it looks often whether there is one that nobody told it of.
BUSY_SECONDS, REST_SECONDS = 10.0, 2.0
# After so many looks for which it was woken in vain, it waits before each further one: whoever may connect to the
# database may tell it of jobs that there are not.
FREE_LOOKS, PAUSE_SECONDS = 3, 0.02
# How many times as many jobs a worker has in work as there are slots: the others wait, for instance for a budget.
JOBS_PER_SLOT = 5


log = get_logger()

# Runs one job to the end of its turn, and returns whether the turn has ended the job; raises `Superseded`,
# `DatabaseLost`, or any exception that a bug causes.
RunTurn = Callable[[Job], Awaitable[bool | None]]


class Gate:
    """Lets jobs of one process run beside each other, and suspects one at a time with nothing beside them."""

    def __init__(self) -> None:
        self._running = self._begun = 0
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
        self._begun += 1
        self._is_empty.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._is_empty.set()

    @property
    def is_open(self) -> bool:
        """Return whether a job may begin now: no suspect runs or waits for an empty process."""
        return self._is_open.is_set()

    async def wait_until_open(self, *, most: float) -> None:
        """Wait until a job may begin, but at most for so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most):
                await self._is_open.wait()

    async def wait_until_quiet(self, seconds: float, *, most: float) -> None:
        """Wait until no job has run for so many seconds, but at most for `most` seconds."""
        count = -1
        with suppress(TimeoutError):
            async with asyncio.timeout(most):
                while count != self._begun:
                    await self._is_empty.wait()
                    count = self._begun
                    await asyncio.sleep(seconds)

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


class JobQueue:
    """The queue as one worker sees it: takes only jobs for which there are free slots.

    `worker_id` is the id under which it takes jobs now, None while it can take none; `own_ids` are all that it has had.
    """

    def __init__(self, database: Database, slots: Slots) -> None:
        self.database, self.slots = database, slots
        self.worker_id: int | None = None
        self.own_ids: set[int] = set()
        # Jobs that end while others are being finished are finished together.
        self._finishing = BatchLoader(self._finish)
        # Of the job that was taken last: when servers are looked at one by one, it is the next one's turn.
        self._last_server = ""
        self._revision = newest_revision()
        # Two claims at a time would both count the jobs of before, and together take more than a person may have.
        self._claiming = asyncio.Lock()
        # No further ones are taken: those in work end, or are left to others.
        self.is_leaving = False

    @property
    def is_claiming(self) -> bool:
        """Return whether jobs are being taken just now."""
        return self._claiming.locked()

    @asynccontextmanager
    async def claim(self, most: int) -> AsyncIterator[Claim]:
        """Reserve slots for the jobs that the block takes; those that it does not fill are free after it."""
        async with self._claiming:
            room = await self.slots.reserve(min(most, MAX_TAKEN))
            parameters = {
                "worker_id": self.worker_id,
                "limit": room,
                "after": self._last_server,
                "revision": self._revision,
                "suspect": SUSPECT_PRIORITY,
                **self.slots.counts,
            }
            claim = Claim(self.slots, room, parameters, last_server=self._last_server)
            try:
                self.slots.is_taking = True
                yield claim
            finally:
                self.slots.is_taking = False
                self.slots.release(room - len(claim.jobs))
                self._last_server = claim.last_server

    async def wait_for_claim(self) -> None:
        """Wait until it is known which jobs were taken."""
        async with self._claiming:
            return

    async def take(self, most: int) -> tuple[list[Job], bool]:
        """Take jobs for which there are slots; tell whether there may be more of them."""
        if self.worker_id is None:
            # A worker that can't take jobs must not register: `/readyz` would take it for one that can.
            async with self.claim(0) as claim:
                await self._take(claim)
            async with self.database.statement() as session:
                await session.execute(statements.probe)
                self.worker_id = (await session.execute(statements.register_worker)).scalar_one()
                self.own_ids.add(self.worker_id)
        async with self.claim(most) as claim:
            if claim.room:
                claim.fill(await self._take(claim))
        return claim.jobs, claim.is_full

    async def leave(self) -> None:
        """Leave all jobs of the worker to others, and take none."""
        worker_id, self.worker_id = self.worker_id, None
        if worker_id is not None:
            async with self.database.statement() as session:
                await session.execute(statements.release_jobs, {"worker_id": worker_id})
                await session.execute(statements.remove_worker, {"worker_id": worker_id})

    async def finish(self, job_id: int) -> bool | None:
        """End a job; return whether the next turn of its place waits, None if it has ended or another worker has it."""
        return await self._finishing.load(job_id)

    async def _take(self, claim: Claim) -> Sequence[Any]:
        async with self.database.statement() as session:
            return (await session.execute(statements.take_jobs, claim.parameters)).all()

    async def _finish(self, ids: Sequence[int]) -> list[bool | None]:
        async with self.database.statement() as session:
            rows = (await session.execute(statements.finish_jobs, {"ids": list(ids)})).all()
        has_next = {row.job_id: row.has_next for row in rows}
        return [has_next.get(job_id) for job_id in ids]


class Runner:
    """Takes the jobs of one worker, and runs each to its end; `has_others` tells whether there are other workers."""

    def __init__(self, queue: JobQueue, run_turn: RunTurn, *, clock: Clock, limits: Limits) -> None:
        self.queue, self._run_turn, self._clock, self._limits = queue, run_turn, clock, limits
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_woken = asyncio.Event()
        self._vain_looks = 0
        self.gate = Gate()
        self.has_others = False
        self._busy_until = 0.0

    @property
    def worker_id(self) -> int | None:
        """Return the id under which it takes jobs now, None while it can take none."""
        return self.queue.worker_id

    @property
    def is_near(self) -> bool:
        """Return whether it should take the jobs of this process: it can begin them soon, or is the only worker."""
        has_room = self.gate.is_open and len(self._tasks) < min(NEAR_JOBS, self._limits.bounds.running)
        takes_jobs = self.worker_id is not None and not self.queue.is_leaving
        return takes_jobs and (has_room or not self.has_others)

    @asynccontextmanager
    async def claim(self) -> AsyncIterator[Claim | None]:
        """Let the block take jobs by a statement of its own: they start after it. None while that can't be."""
        if self.queue.is_claiming or self.queue.is_leaving:
            yield None
            return
        async with self.queue.claim(min(self._room, NEAR_JOBS)) as claim:
            try:
                yield claim
            finally:
                # They are in work here from now on, whatever becomes of who took them.
                self._start(claim.jobs)
        if claim.is_full:
            self.wake()

    def wake(self) -> None:
        """Look for jobs now, because there may be one."""
        self._is_woken.set()

    async def take_jobs(self) -> None:
        """Take and start jobs until cancelled; raises what the database refuses."""
        while True:
            if self.has_others:
                await self.gate.wait_until_open(most=self._limits.held_seconds)
            jobs, may_have_more = await retry_on_lost_db(self._take, math.inf)
            self._start(jobs)
            self._vain_looks = 0 if jobs else self._vain_looks + 1
            if not may_have_more:
                await self._rest()

    @property
    def _room(self) -> int:
        return JOBS_PER_SLOT * self._limits.bounds.running - len(self._tasks)

    def _start(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            task = asyncio.create_task(self._run(job), name="job")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._busy_until = self._clock.monotonic() + BUSY_SECONDS

    async def _rest(self) -> None:
        # At rest, the worker's look at all kinds of work wakes it; that it could take jobs is tried now and then.
        is_busy = self._clock.monotonic() < self._busy_until
        seconds = self._limits.poll_seconds if is_busy else max(self._limits.poll_seconds, REST_SECONDS)
        if self._vain_looks > FREE_LOOKS:
            await asyncio.sleep(PAUSE_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                await self._is_woken.wait()
        except TimeoutError:
            # Nobody woke it.
            self._vain_looks = 0

    async def _take(self) -> tuple[list[Job], bool]:
        self._is_woken.clear()
        return await self.queue.take(self._room)

    async def leave(self) -> None:
        """Wait for the jobs in work, cancel those that have not ended in time, and leave them to other workers."""
        self.queue.is_leaving = True
        try:
            # What the inbox is taking just now is in work, too.
            await self.queue.wait_for_claim()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._limits.grace_seconds)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            with suppress(DatabaseLost, *server_errors()):
                await self.queue.leave()
            self.queue.is_leaving = False

    async def _run(self, job: Job) -> None:
        # A job that does not end here waits again when the sweep misses it among those in work.
        try:
            if await self._run_in_slot(job):
                return
            if await retry_on_lost_db(lambda: self.queue.finish(job.id), self._limits.retry_seconds):
                self.wake()
        except DatabaseLost as error:
            log.warning("job_left", inbox=job.inbox_id, cause=str(error.__cause__ or error))
        except Exception:
            log.exception("job_failed", inbox=job.inbox_id)

    async def _run_in_slot(self, job: Job) -> bool | None:
        try:
            if job.deaths is None:
                async with self.gate.shared():
                    return await self._run_with_retries(job)
            # Outside of the gate, so that this process goes on while the suspect waits for those of others.
            while not await self._try_alone(job):  # noqa: ASYNC110  # other processes are waited for
                await asyncio.sleep(WAIT_SECONDS)
            return False
        finally:
            if job.prefetch is not None:
                job.prefetch.settle(is_flushed=False)
            if self.queue.slots.end(job.slot):
                self.wake()

    async def _try_alone(self, job: Job) -> bool:
        async with self.gate.alone():
            if job.deaths is not None and job.deaths > MAX_DEATHS:
                await self._give_up(replace(job, last_error=f"the worker died {job.deaths} times while it ran alone"))
                return True
            has_started = await retry_on_lost_db(
                lambda: start_alone(self.queue.database, job.id), self._limits.retry_seconds
            )
            if has_started:
                await self._run_with_retries(job)
            return has_started is not False

    async def _run_with_retries(self, job: Job) -> bool | None:
        errors = losses = 0
        give_up_at = self._clock.monotonic() + self._limits.retry_seconds
        while errors < MAX_ERRORS:
            # An attempt that failed may have left it.
            if not job.slot.is_held:
                await job.slot.enter()
            try:
                # What a crash has lost before it was flushed may have left its ids to other jobs.
                if losses and not await inbox.flush(self.queue.database, job):
                    log.warning("job_lost", inbox=job.inbox_id)
                    return True
                return await self._run_turn(job)
            except Superseded:
                log.info("turn_superseded", inbox=job.inbox_id)
                return False
            except DatabaseLost:
                if self._clock.monotonic() > give_up_at:
                    raise
                await asyncio.sleep(DATABASE_WAITS[min(losses, len(DATABASE_WAITS) - 1)])
                losses += 1
                job = replace(job, was_lost=True)
            except Exception as error:
                # A bug, or a message that triggers one: the turn is retried from its journal, then parked.
                log.exception("turn_failed", inbox=job.inbox_id)
                job = replace(job, was_lost=False, last_error=describe(error))
                errors += 1
        await self._give_up(job)
        return False

    async def _give_up(self, job: Job) -> None:
        async with self.queue.database.transaction() as session:
            await inbox.give_up(session, job, prompts().turn.parked)


def describe(error: Exception) -> str:
    """Return an error as text for the operator; a database's without its own, which may hold people's messages."""
    if isinstance(error, server_errors()):
        return f"{type(getattr(error, 'orig', error)).__name__} ({sqlstate_of(error)})"
    return redact_text(f"{type(error).__name__}: {error}")[:500]
