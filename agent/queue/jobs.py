"""Takes the jobs for which there is room, and runs each of them to the end of its turn.

Slots bound how many turns run at once, in all and for each person and server. Suspects run with nothing beside them.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import procrastinate
from procrastinate.connector import BaseConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job as QueuedJob
from procrastinate.jobs import Status
from procrastinate.manager import JobManager, NotificationCallback, get_channel_for_queues
from psycopg.errors import RaiseException

from agent.prompts import prompts
from agent.queue import inbox
from agent.queue.connector import DATABASE_WAITS
from agent.queue.inbox import QUEUE
from agent.queue.job import Job, Slots
from agent.queue.suspects import MAX_DEATHS, SUSPECT_PRIORITY, WAIT_SECONDS, start_alone
from shared.clock import Clock
from shared.db.batching import BatchLoader
from shared.db.database import Database, DatabaseLost, retry_on_lost_db
from shared.db.errors import REFUSED, sqlstate_of
from shared.db.migrations import newest_revision
from shared.errors import Superseded
from shared.log import get_logger
from shared.redaction import redact_text

MAX_ERRORS = 4
MAX_TAKEN = 16  # jobs in one statement

TAKE = """
SELECT (taken.job).*, taken.person, taken.server FROM parley_take_jobs(
    p_queue => %(queue)s, p_worker_id => %(worker_id)s, p_limit => %(limit)s,
    p_persons => %(persons)s::jsonb, p_servers => %(servers)s::jsonb,
    p_per_person => %(per_person)s, p_per_server => %(per_server)s, p_after => %(after)s, p_revision => %(revision)s
) AS taken
"""
FINISH = """
SELECT job_id, is_awaited FROM parley_finish_jobs(%(ids)s::bigint[], %(statuses)s::text[], %(deleted)s::boolean[])
"""
log = get_logger()

# Runs one job to the end of its turn; raises `Superseded`, `DatabaseLost`, or any exception that a bug causes.
RunTurn = Callable[[Job], Awaitable[None]]


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


class FairJobs(JobManager):
    """procrastinate's access to its jobs; takes only jobs for which there are free slots."""

    def __init__(self, connector: BaseConnector, slots: Slots) -> None:
        super().__init__(connector)
        self.slots = slots
        # Jobs that end while others are being finished are finished together.
        self._finishing = BatchLoader(self._finish)
        self._taken: deque[QueuedJob] = deque()
        self._notify: NotificationCallback | None = None
        # Of the job that was taken last: when servers are looked at one by one, it is the next one's turn.
        self._last_server = ""
        # How often this worker was told that there may be a job for it; and how often, when it took the last one.
        self._told, self._emptied_at = 0, -1
        self._revision = newest_revision()

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> QueuedJob | None:
        """Return the next job that has a slot, if there is one."""
        if self._taken:
            return self._taken.popleft()
        signals, self._emptied_at = self._emptied_at, -1
        # procrastinate forgets what it is told during a fetch, and asks once more after the last job.
        while not self._taken and signals != self._told:
            signals = self._told
            if await self._take(worker_id):
                self._emptied_at = signals
        return self._taken.popleft() if self._taken else None

    async def finish_job_by_id_async(self, job_id: int, status: Status, delete_job: bool) -> None:
        """Set a job to its final state, unless another worker has it by now; then look for one that waits for it."""
        signals = self._told
        try:
            if await self._finishing.load((job_id, status.value, delete_job)) or signals != self._told:
                await self.wake()
        except ConnectorException as error:
            # Another worker considered this one dead, ended this job and queued it again.
            if not isinstance(error.__cause__, RaiseException):
                raise
            log.info("job_was_taken_over")

    async def _finish(self, ending: Sequence[tuple[int, str, bool]]) -> list[bool]:
        # Returns of each job whether another one waits for its place.
        ids, statuses, deleted = map(list, zip(*ending, strict=True))
        rows = await self.connector.execute_query_all_async(FINISH, ids=ids, statuses=statuses, deleted=deleted)
        awaited = {row["job_id"]: row["is_awaited"] for row in rows}
        return [awaited[job_id] for job_id in ids]

    async def check(self) -> None:
        """Take jobs of a queue that has none; raises `ConnectorException` if this can't be done."""
        await self.connector.execute_query_all_async(
            TAKE, queue="", worker_id=None, limit=0, after="", revision=self._revision, **self.slots.counts
        )

    async def listen_for_jobs(
        self, *, on_notification: NotificationCallback, queues: Iterable[str] | None = None
    ) -> None:
        """Listen for notifications of new jobs until cancelled.

        Every role of the database may send one: whatever it says, there may be a job, and none of ours ends.
        """

        async def hear(**_note: str) -> None:
            await self.wake()

        self._notify = on_notification
        await self.connector.listen_notify(on_notification=hear, channels=get_channel_for_queues(queues))

    async def wake(self) -> None:
        """Make the worker look for jobs now, because there may be one for it."""
        self._told += 1
        if self._notify is not None:
            await self._notify(channel="", notification={"type": "job_inserted", "job_id": 0})

    def forget(self) -> None:
        """Forget the jobs that were not started before the worker stopped; a sweep queues them again."""
        for job in self._taken:
            self.slots.end(job.id or 0)
        self._taken.clear()
        self._emptied_at = -1

    async def _take(self, worker_id: int) -> bool:
        """Take the jobs for which there are slots; return whether the last one is among them."""
        room = await self.slots.reserve(MAX_TAKEN)
        if not room:
            return False
        try:
            self.slots.is_taking = True
            rows = await self.connector.execute_query_all_async(
                TAKE,
                queue=QUEUE,
                worker_id=worker_id,
                limit=room,
                after=self._last_server,
                revision=self._revision,
                **self.slots.counts,
            )
            has_last = 0 < len(rows) < room
            for row in rows:
                self._taken.append(QueuedJob.from_row(row))
                if row["person"] is not None:
                    self.slots.assign(row["id"], row["person"], row["server"])
                    self._last_server = row["server"] or ""
                    room -= 1
            return has_last
        finally:
            self.slots.is_taking = False
            self.slots.release(room)


class Runner:
    """Runs the jobs that a worker has taken.

    `own_ids` are the ids of the workers that this process has been, `live_ids` those of its present run: a row that an
    earlier run has left behind must not look alive.
    """

    def __init__(
        self, database: Database, clock: Clock, run_turn: RunTurn, *, jobs: FairJobs, retry_seconds: float
    ) -> None:
        self._database, self._clock, self._run_turn = database, clock, run_turn
        self._jobs, self.slots, self.gate = jobs, jobs.slots, Gate()
        self._retry_seconds = retry_seconds
        self.own_ids: set[int] = set()
        self.live_ids: set[int] = set()

    async def run_job(  # `person` and `server` are for the claim alone
        self,
        context: procrastinate.JobContext,
        inbox_id: int,
        person: str = "",
        server: str = "",
    ) -> None:
        """Run the next turn of the place of this message, and free the job's slot at its end."""
        job_id, worker_id = context.job.id or 0, context.job.worker_id
        if worker_id is not None:
            self.own_ids.add(worker_id)
            self.live_ids.add(worker_id)
        deaths = context.job.attempts if context.job.priority >= SUSPECT_PRIORITY else None
        job = Job(job_id, inbox_id, slot=self.slots.of(job_id), deaths=deaths)
        try:
            if deaths is None:
                async with self.gate.shared():
                    await self._run_with_retries(job)
            else:
                # Outside of the gate, so that this process goes on while the suspect waits for those of others.
                while not await self._try_alone(job):  # noqa: ASYNC110  # other processes are waited for
                    await asyncio.sleep(WAIT_SECONDS)
        except asyncio.CancelledError:
            # Stopping: another worker continues the turn from its journal.
            with suppress(DatabaseLost):
                await asyncio.shield(self._requeue(inbox_id))
            raise
        finally:
            if self.slots.end(job_id):
                await self._jobs.wake()

    async def _try_alone(self, job: Job) -> bool:
        async with self.gate.alone():
            if job.deaths is not None and job.deaths > MAX_DEATHS:
                await self._give_up(replace(job, last_error=f"the worker died {job.deaths} times while it ran alone"))
                return True
            has_started = await retry_on_lost_db(lambda: start_alone(self._database, job.id), self._retry_seconds)
            if has_started:
                await self._run_with_retries(job)
            return has_started is not False

    async def _run_with_retries(self, job: Job) -> None:
        errors = losses = 0
        give_up_at = self._clock.monotonic() + self._retry_seconds
        while errors < MAX_ERRORS:
            # An attempt that failed may have left it.
            if not job.slot.is_held:
                await job.slot.enter()
            try:
                return await self._run_turn(job)
            except Superseded:
                log.info("turn_superseded", inbox=job.inbox_id)
                return None
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
        return None

    async def _requeue(self, inbox_id: int) -> None:
        async with self._database.transaction() as session:
            await inbox.requeue(session, inbox_id)

    async def _give_up(self, job: Job) -> None:
        async with self._database.transaction() as session:
            await inbox.give_up(session, job, prompts().turn.parked)


def describe(error: Exception) -> str:
    """Return an error as text for the operator; a database's without its own, which may hold people's messages."""
    if isinstance(error, REFUSED):
        return f"{type(getattr(error, 'orig', error)).__name__} ({sqlstate_of(error)})"
    return redact_text(f"{type(error).__name__}: {error}")[:500]
