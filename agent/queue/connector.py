"""The procrastinate app for our Postgres: jobs are taken fairly, and a restart of the database is waited for."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import procrastinate
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job
from procrastinate.manager import JobManager, NotificationCallback
from psycopg import AsyncConnection, OperationalError
from psycopg.errors import RaiseException
from psycopg_pool import AsyncConnectionPool

from agent.queue.inbox import QUEUE
from agent.queue.slots import Slots
from shared.db.database import Database, is_stale
from shared.db.driver import QUEUE_NAME
from shared.log import get_logger

# Seconds between retries; short, because a waiting job holds the lock of its place.
DATABASE_WAITS = (0.1, 0.5, 1.0, 2.0)
# How many jobs one statement takes at most.
MAX_TAKEN = 16

TAKE = """
SELECT (taken.job).*, taken.person, taken.server FROM parley_take_jobs_v1(
    p_queue => %(queue)s, p_worker_id => %(worker_id)s, p_limit => %(limit)s,
    p_persons => %(persons)s::text[], p_servers => %(servers)s::text[]
) AS taken
"""

log = get_logger()
Result = TypeVar("Result")


class RetryingConnector(procrastinate.PsycopgConnector):
    """procrastinate's connector; retries while the database restarts, so that the worker does not end."""

    async def execute_query_async(self, query: Any, **arguments: Any) -> None:
        """Run a statement."""
        try:
            await self._retried(lambda: super(RetryingConnector, self).execute_query_async(query, **arguments))
        except ConnectorException as error:
            # Another worker considered this one dead, ended this job and queued it again.
            if not isinstance(error.__cause__, RaiseException):
                raise
            log.info("job_was_taken_over")

    async def execute_query_one_async(self, query: Any, **arguments: Any) -> dict[str, Any]:
        """Run a statement and return its row."""
        return await self._retried(lambda: super(RetryingConnector, self).execute_query_one_async(query, **arguments))

    async def execute_query_all_async(self, query: Any, **arguments: Any) -> list[dict[str, Any]]:
        """Run a statement and return its rows."""
        return await self._retried(lambda: super(RetryingConnector, self).execute_query_all_async(query, **arguments))

    async def listen_notify(self, on_notification: Any, channels: Iterable[str]) -> None:
        """Listen for notifications of new jobs until cancelled."""
        await self._retried(lambda: super(RetryingConnector, self).listen_notify(on_notification, channels))

    async def _retried(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        waits = 0
        while True:
            try:
                return await attempt()
            except ConnectorException as error:
                if error.__cause__ is not None and is_stale(error.__cause__):
                    log.warning("queue_connections_replaced", cause=str(error.__cause__))
                    await self.pool.drain()
                elif not isinstance(error.__cause__, OperationalError):
                    raise
                await asyncio.sleep(DATABASE_WAITS[min(waits, len(DATABASE_WAITS) - 1)])
                waits += 1
                # When one connection is lost, the others of the pool are lost too.
                await self.pool.check()


class FairJobs(JobManager):
    """procrastinate's access to its jobs; takes only jobs for which there are free slots."""

    def __init__(self, connector: RetryingConnector, slots: Slots) -> None:
        super().__init__(connector)
        self._slots = slots
        self._taken: deque[Job] = deque()
        self._notify: NotificationCallback | None = None

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """Return the next job that has a slot, if there is one."""
        if not self._taken:
            await self._take(worker_id)
        return self._taken.popleft() if self._taken else None

    async def check(self) -> None:
        """Take jobs of a queue that has none; raises `ConnectorException` if this can't be done."""
        await self.connector.execute_query_all_async(TAKE, queue="", worker_id=None, limit=0, persons=[], servers=[])

    async def listen_for_jobs(
        self, *, on_notification: NotificationCallback, queues: Iterable[str] | None = None
    ) -> None:
        """Listen for notifications of new jobs until cancelled."""
        self._notify = on_notification
        await super().listen_for_jobs(on_notification=on_notification, queues=queues)

    async def wake(self) -> None:
        """Make the worker look for jobs now, because a slot has become free."""
        if self._notify is not None:
            await self._notify(channel="", notification={"type": "job_inserted", "job_id": 0})

    def forget(self) -> None:
        """Forget the jobs that were not started before the worker stopped; a sweep queues them again."""
        for job in self._taken:
            self._slots.end(job.id or 0)
        self._taken.clear()

    async def _take(self, worker_id: int) -> None:
        room = await self._slots.reserve(MAX_TAKEN)
        if not room:
            return
        try:
            for row in await self.connector.execute_query_all_async(
                TAKE,
                queue=QUEUE,
                worker_id=worker_id,
                limit=room,
                persons=self._slots.full_persons,
                servers=self._slots.full_servers,
            ):
                self._taken.append(Job.from_row(row))
                if row["person"] is not None:
                    self._slots.assign(row["id"], row["person"], row["server"])
                    room -= 1
        finally:
            self._slots.release(room)


def _open_pool(**given: Any) -> AsyncConnectionPool:
    # By default each use of a connection is preceded by a test query; retrying after an error is cheaper.
    named = {**given.get("kwargs", {}), "application_name": QUEUE_NAME}
    return AsyncConnectionPool(**given | {"check": None, "kwargs": named})


async def _configure(connection: AsyncConnection[Any]) -> None:
    # Every transaction here is a single statement; BEGIN and COMMIT would add two round trips.
    await connection.set_autocommit(True)
    # If the server crashes, the last changes of the queue may be lost; the sweep then finds the affected messages.
    await connection.execute("SET synchronous_commit = off")


@asynccontextmanager
async def opened(queue: procrastinate.App) -> AsyncIterator[None]:
    """Open the queue's connections for the block."""
    try:
        await _open(queue)
        yield
    finally:
        # Also if opening was cancelled: the pool's tasks treat a cancellation as a failed connection and go on, which
        # would keep the process from exiting.
        await queue.close_async()


async def _open(queue: procrastinate.App) -> None:
    while True:
        try:
            await queue.open_async()
        except ConnectorException as error:
            log.warning("queue_waits_for_database", cause=str(error.__cause__ or error))
            # A pool that could not be opened can't be opened again.
            await queue.close_async()
            await asyncio.sleep(DATABASE_WAITS[-1])
        else:
            return


async def replace_connections(queue: procrastinate.App) -> None:
    """Replace all connections of the queue by new ones."""
    if isinstance(queue.connector, RetryingConnector):
        await queue.connector.pool.drain()


def build_queue(database: Database, slots: Slots) -> tuple[procrastinate.App, FairJobs]:
    """Return the job queue on the same Postgres, with a small pool of its own, and its access to the jobs."""
    connector = RetryingConnector(
        pool_factory=_open_pool,
        conninfo=database.address.libpq(),
        configure=_configure,
        min_size=1,
        max_size=4,
        timeout=10,
        name="queue",
    )
    queue, jobs = procrastinate.App(connector=connector), FairJobs(connector, slots)
    queue.job_manager = jobs
    return queue, jobs
