"""The turn boundary: takes jobs, keeps what fails from spreading, takes over from the dead, sweeps up.

One job takes one turn; its lock is the place, so that a place has one turn at a time. Workers are equal: any of them
may take any job.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

import procrastinate
from procrastinate.exceptions import ConnectorException
from psycopg import AsyncConnection, OperationalError
from psycopg.errors import RaiseException
from psycopg_pool import AsyncConnectionPool
from sqlalchemy import text

from agent import inbox, outbox
from agent.app import App
from agent.below import end_orphans
from agent.budget import release_expired
from agent.inbox import QUEUE, TAKE_TURN, Job
from agent.personas import prompts
from agent.stops import Stops
from agent.turn import run_turn
from shared.database import REFUSED, Database, DatabaseLost, sqlstate_of
from shared.errors import Superseded
from shared.log import get_logger

HEARTBEAT_SECONDS = 5.0
STALE_SECONDS = 10.0
SWEEP_SECONDS = 2.0
VECTOR_SECONDS = 5.0
GRACE_SECONDS = 20.0
# A notification that arrives during an empty fetch is lost; this is how long such a job waits at the most.
POLL_SECONDS = 0.05
CONCURRENCY = 200
# A waiting job holds its place's lock: never wait long for the database.
DATABASE_WAITS = (0.1, 0.5, 1.0, 2.0)
MAX_ERRORS = 4
RESTART_SECONDS = 1.0

# A job whose worker is dead, or which its own worker does not know any more, is ended and queued anew: were the same
# row given back, a worker that wakes up late would end it while another runs it.
REQUEUE_STALE = text(f"""
WITH stale AS (
    SELECT jobs.id FROM procrastinate_jobs AS jobs
    LEFT JOIN procrastinate_workers AS workers ON workers.id = jobs.worker_id
    WHERE jobs.status = 'doing'
      AND (workers.id IS NULL OR workers.last_heartbeat < now() - :stale * interval '1 second'
           OR jobs.id = ANY(CAST(:lost AS bigint[])))
    FOR UPDATE OF jobs SKIP LOCKED
), ended AS (
    UPDATE procrastinate_jobs SET status = 'failed', attempts = attempts + 1 FROM stale
    WHERE procrastinate_jobs.id = stale.id
    RETURNING procrastinate_jobs.task_name, procrastinate_jobs.lock, procrastinate_jobs.args
)
SELECT procrastinate_defer_jobs_v1(
    array_agg(ROW('{QUEUE}', '{TAKE_TURN}', 0, lock, NULL, args, NULL)::procrastinate_job_to_defer_v1)
) FROM ended WHERE task_name = '{TAKE_TURN}' HAVING count(*) > 0
""")
MINE = text(f"""
SELECT id FROM procrastinate_jobs
WHERE status = 'doing' AND task_name = '{TAKE_TURN}' AND worker_id = ANY(CAST(:workers AS bigint[]))
""")
REQUEUE = text(f"""
SELECT procrastinate_defer_jobs_v1(ARRAY[ROW(
    '{QUEUE}', '{TAKE_TURN}', 0, place_key, NULL, jsonb_build_object('inbox_id', id), NULL
)::procrastinate_job_to_defer_v1]) FROM inbox WHERE id = :inbox_id
""")
BEAT = text("UPDATE procrastinate_workers SET last_heartbeat = now() WHERE id = ANY(CAST(:workers AS bigint[]))")
# Finished jobs tell nothing that the turns do not, and many of them make every fetch slower.
PURGE = text("""
DELETE FROM procrastinate_jobs WHERE id IN (
    SELECT id FROM procrastinate_jobs WHERE status IN ('succeeded', 'failed', 'cancelled', 'aborted') LIMIT 50000
)
""")

log = get_logger()
Result = TypeVar("Result")


class Worker:
    """Takes jobs until it is stopped. `run` once; cancel that task to stop: what runs gets `grace` seconds to end."""

    def __init__(self, app: App, *, concurrency: int = CONCURRENCY, grace: float = GRACE_SECONDS) -> None:
        self._app = app
        self._grace = grace
        self._concurrency = concurrency
        self._stops = Stops()
        self._jobs: set[int] = set()
        self._unknown: set[int] = set()
        self._ids: set[int] = set()
        app.events.on_stop(self._stops.ask)
        self._queue = build_queue(app.database)
        self._queue.task(name=TAKE_TURN, queue=QUEUE, pass_context=True)(self._take)
        purge = self._queue.task(name="purge_jobs", queue=QUEUE, queueing_lock="purge_jobs")(self._purge)
        self._queue.periodic(cron="* * * * *")(purge)

    async def run(self) -> None:
        """Work; ends when its task is cancelled, after what runs is finished or handed over."""
        async with opened(self._queue):
            # Apart from each other: a platform or an embedder that is slow must not cost us our heartbeat.
            chores = [
                asyncio.create_task(self._every(SWEEP_SECONDS, self._sweep), name="sweeper"),
                asyncio.create_task(self._every(SWEEP_SECONDS, self._deliver_left_overs), name="outbox sweeper"),
                asyncio.create_task(self._every(VECTOR_SECONDS, self._app.memory.fill_vectors), name="vectors"),
                asyncio.create_task(self._app.mcp.run(), name="MCP servers"),
            ]
            try:
                await self._run_on()
            finally:
                for chore in chores:
                    chore.cancel()
                await asyncio.gather(*chores, return_exceptions=True)

    async def _run_on(self) -> None:
        while True:
            try:
                await self._queue.run_worker_async(
                    queues=[QUEUE],
                    concurrency=self._concurrency,
                    fetch_job_polling_interval=POLL_SECONDS,
                    shutdown_graceful_timeout=self._grace,
                    install_signal_handlers=False,
                    update_heartbeat_interval=HEARTBEAT_SECONDS,
                    stalled_worker_timeout=STALE_SECONDS,
                )
            except ConnectorException as error:
                # Its row was taken off the list of workers while it was frozen; it begins again under a new one.
                log.warning("worker_restarting", cause=str(error.__cause__ or error))
            if (task := asyncio.current_task()) is not None and task.cancelling():
                # Its own end met the database's: the error came instead of the cancellation.
                return
            await asyncio.sleep(RESTART_SECONDS)

    async def _take(self, context: procrastinate.JobContext, inbox_id: int) -> None:
        job_id, worker_id = context.job.id or 0, context.job.worker_id
        self._jobs.add(job_id)
        self._ids |= {worker_id} if worker_id is not None else set()
        try:
            await self._persist(Job(job_id, inbox_id))
        except asyncio.CancelledError:
            # Stopping: the turn goes on where it is, with another worker.
            with suppress(DatabaseLost):
                await asyncio.shield(self._requeue(inbox_id))
            raise
        finally:
            self._jobs.discard(job_id)

    async def _persist(self, job: Job) -> None:
        errors = losses = 0
        give_up_at = self._app.clock.monotonic() + self._app.settings.turn_deadline_seconds
        while errors < MAX_ERRORS:
            try:
                return await run_turn(self._app, job, self._stops)
            except Superseded:
                log.info("turn_superseded", inbox=job.inbox_id)
                return None
            except DatabaseLost:
                if self._app.clock.monotonic() > give_up_at:
                    raise
                await asyncio.sleep(DATABASE_WAITS[min(losses, len(DATABASE_WAITS) - 1)])
                losses += 1
                job = replace(job, was_lost=True)
            except Exception as error:
                # A bug, or a message that brings one out: tried again from the journal, then parked.
                log.exception("turn_failed", inbox=job.inbox_id)
                job = replace(job, was_lost=False, last_error=describe(error))
                errors += 1
        async with self._app.database.transaction() as session:
            await inbox.give_up(session, job, prompts()["turn.parked"])
        return None

    async def _requeue(self, inbox_id: int) -> None:
        async with self._app.database.transaction() as session:
            await session.execute(REQUEUE, {"inbox_id": inbox_id})

    async def _purge(self, timestamp: int) -> None:
        async with self._app.database.transaction() as session:
            await session.execute(PURGE)

    async def _every(self, seconds: float, chore: Callable[[], Awaitable[object]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await chore()
            except DatabaseLost:
                log.warning("database_lost")
            except Exception:
                # A chore serves everybody: one row that it stumbles over must not end it.
                log.exception("chore_failed")

    async def _deliver_left_overs(self) -> None:
        await outbox.sweep(self._app)

    async def _sweep(self) -> None:
        async with self._app.database.transaction() as session:
            # procrastinate's own heartbeat ends when the stop begins, and what runs would be taken from us.
            await session.execute(BEAT, {"workers": list(self._ids)})
            held = {row.id for row in (await session.execute(MINE, {"workers": list(self._ids)})).all()}
            # A job can be lost between its end and the note of it; twice unknown means that it is.
            unknown = held - self._jobs
            lost, self._unknown = unknown & self._unknown, unknown
            await session.execute(REQUEUE_STALE, {"stale": STALE_SECONDS, "lost": list(lost)})
            await inbox.requeue_lost(session)
            await release_expired(session)
            await end_orphans(session)


def describe(error: Exception) -> str:
    """Return an error for the operator; the database's own text repeats rows, and with them what people have said."""
    if isinstance(error, REFUSED):
        return f"{type(getattr(error, 'orig', error)).__name__} ({sqlstate_of(error)})"
    return f"{type(error).__name__}: {error}"[:500]


class PatientConnector(procrastinate.PsycopgConnector):
    """procrastinate's connection, which waits for a database that restarts instead of ending the worker."""

    async def execute_query_async(self, query: Any, **arguments: Any) -> None:
        """Run a statement."""
        try:
            await self._patiently(lambda: super(PatientConnector, self).execute_query_async(query, **arguments))
        except ConnectorException as error:
            # The end of a job that was ended for us, because we seemed dead, and queued anew.
            if not isinstance(error.__cause__, RaiseException):
                raise
            log.info("job_was_taken_over")

    async def execute_query_one_async(self, query: Any, **arguments: Any) -> dict[str, Any]:
        """Run a statement and return its row."""
        return await self._patiently(lambda: super(PatientConnector, self).execute_query_one_async(query, **arguments))

    async def execute_query_all_async(self, query: Any, **arguments: Any) -> list[dict[str, Any]]:
        """Run a statement and return its rows."""
        return await self._patiently(lambda: super(PatientConnector, self).execute_query_all_async(query, **arguments))

    async def listen_notify(self, on_notification: Any, channels: Iterable[str]) -> None:
        """Listen for jobs, for ever."""
        await self._patiently(lambda: super(PatientConnector, self).listen_notify(on_notification, channels))

    async def _patiently(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        waits = 0
        while True:
            try:
                return await attempt()
            except ConnectorException as error:
                if not isinstance(error.__cause__, OperationalError):
                    raise
                await asyncio.sleep(DATABASE_WAITS[min(waits, len(DATABASE_WAITS) - 1)])
                waits += 1
                # What one connection has lost, the others of the pool have lost too.
                await self.pool.check()


def _open_pool(**given: Any) -> AsyncConnectionPool:
    # procrastinate checks a connection before each statement, by a statement; to be patient afterwards is cheaper.
    return AsyncConnectionPool(**given | {"check": None})


async def _configure(connection: AsyncConnection[Any]) -> None:
    # One statement is one transaction here: BEGIN and COMMIT of their own would be two more round trips.
    await connection.set_autocommit(True)
    # When the server crashes, the queue's last moments may be gone: the sweep finds what was taken or ended in them.
    await connection.execute("SET synchronous_commit = off")


@asynccontextmanager
async def opened(queue: procrastinate.App) -> AsyncIterator[None]:
    """Open the queue's connections for the block."""
    try:
        await queue.open_async()
        yield
    finally:
        # Also when it was cancelled while it opened: tasks of the pool take a cancellation for a failed connection and
        # go on, and a process with one of them never ends.
        await queue.close_async()


def build_queue(database: Database) -> procrastinate.App:
    """Return the job queue on the same Postgres, with a small pool of its own."""
    return procrastinate.App(
        connector=PatientConnector(
            pool_factory=_open_pool,
            conninfo=database.address.libpq(),
            configure=_configure,
            min_size=1,
            max_size=4,
            timeout=10,
            name="queue",
        )
    )
