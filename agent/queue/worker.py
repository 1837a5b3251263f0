"""The turn boundary: takes jobs, keeps what fails from spreading, takes over from the dead, sweeps up.

One job takes one turn; its lock is the place, so that a place has one turn at a time. Workers are equal: any of them
may take any job.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import procrastinate
from procrastinate.exceptions import ConnectorException
from sqlalchemy import text

from agent.app import App
from agent.billing.budget import release_expired
from agent.delegation.child_turn import end_orphans
from agent.prompts import prompts
from agent.queue import inbox, outbox
from agent.queue.connector import DATABASE_WAITS, build_queue, opened
from agent.queue.inbox import QUEUE, TAKE_TURN, Job
from agent.turn.cancellation import Stops
from agent.turn.run import run_turn
from shared.db.database import REFUSED, DatabaseLost, sqlstate_of
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
            await inbox.give_up(session, job, prompts().turn.parked)
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
