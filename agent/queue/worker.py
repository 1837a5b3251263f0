"""The worker: keeps jobs running in this process, and queues the jobs of workers that died again.

One job runs one turn. Its lock is the place, so that a place has only one turn at a time. Every worker can run every
job.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from procrastinate.exceptions import ConnectorException

from agent.people.billing.budget import end_expired
from agent.queue import inbox
from agent.queue.connector import build_queue, opened, replace_connections
from agent.queue.heartbeats import STALE_SECONDS, Heartbeat, Heartbeats
from agent.queue.inbox import QUEUE, TURN_TASK
from agent.queue.job import Bounds, Slots
from agent.queue.jobs import FairJobs, Runner, RunTurn
from agent.queue.suspects import PRIORITIES
from shared.clock import Clock
from shared.db.database import Database, DatabaseLost
from shared.db.errors import REFUSED
from shared.db.statements import load_statements
from shared.log import get_logger
from shared.tasks import is_cancelled

statements = load_statements(__file__)

HEARTBEAT_SECONDS = 5.0
# procrastinate itself deletes no rows of workers: it would judge them by the wall clock alone.
NEVER_SECONDS = 100 * 365 * 86400.0
SWEEP_SECONDS = 2.0
GRACE_SECONDS = 20.0
# For jobs with a time, and for what a lost connection did not tell.
POLL_SECONDS = 0.25
# Work that can wait begins in such a pause between turns, which need the processors, or when it has waited for long.
QUIET_SECONDS, MOST_WAIT_SECONDS = 0.5, 10.0
# How many times as many jobs a worker has in work as there are slots: the others wait, for instance for a budget.
JOBS_PER_SLOT = 5
RESTART_SECONDS = 1.0


log = get_logger()


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a worker.

    A job is retried for up to `retry_seconds` while the database is down. When the worker stops, running jobs get
    `grace_seconds` to finish. It looks for jobs every `poll_seconds`, whatever it is told.
    """

    bounds: Bounds = field(default_factory=Bounds)
    retry_seconds: float = 180.0
    grace_seconds: float = GRACE_SECONDS
    poll_seconds: float = POLL_SECONDS


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """Background work of a worker: `run` is called every `seconds`; if that is None, once, until it is cancelled.

    Work that nobody waits for `can_wait`: it begins when no turn has run here for half a second, or after ten seconds.
    """

    name: str
    run: Callable[[], Awaitable[object]]
    seconds: float | None = None
    can_wait: bool = False


class _Sweeper:
    # Keeps the heartbeats of this process's workers, and queues again the jobs of dead workers and those that are lost.
    def __init__(self, database: Database, clock: Clock, runner: Runner) -> None:
        self._database, self._clock, self._runner = database, clock, runner
        self._unknown: set[int] = set()
        self._heartbeats = Heartbeats()

    async def sweep(self) -> None:
        async with self._database.transaction() as session:
            # procrastinate stops its heartbeat when shutdown begins: without ours, others would take over running jobs.
            await session.execute(statements.renew_heartbeats, {"workers": list(self._runner.live_ids)})
            job_ids = {
                row.id
                for row in (
                    await session.execute(statements.list_own_jobs, {"workers": list(self._runner.own_ids)})
                ).all()
            }
            # A job that has just ended may not be marked yet: only one that is unknown in two sweeps in a row is lost.
            unknown = job_ids - self._runner.slots.jobs
            lost, self._unknown = unknown & self._unknown, unknown
            heartbeats = (await session.execute(statements.list_heartbeats, {"stale": STALE_SECONDS})).all()
            dead = self._heartbeats.find_dead((Heartbeat(*row) for row in heartbeats), self._clock.monotonic())
            await session.execute(statements.requeue_stale, {"dead": dead, "lost": list(lost), **PRIORITIES})
            if dead:
                await session.execute(statements.remove_workers, {"dead": dead})
            await inbox.requeue_lost(session)
            await end_expired(session)


class Worker:
    """Runs jobs. Call `run` once; cancel its task to stop."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        run_turn: RunTurn,
        *,
        periodic_tasks: Sequence[PeriodicTask] = (),
        limits: Limits | None = None,
    ) -> None:
        """Run jobs with `run_turn`, and the `periodic_tasks` in the background."""
        self._database = database
        self._limits = limits or Limits()
        self._queue, slots = build_queue(database), Slots(self._limits.bounds)
        self._queue.job_manager = self._jobs = FairJobs(self._queue.connector, slots)
        self._runner = Runner(database, clock, run_turn, jobs=self._jobs, retry_seconds=self._limits.retry_seconds)
        self._queue.task(name=TURN_TASK, queue=QUEUE, pass_context=True)(self._runner.run_job)
        sweeper = _Sweeper(database, clock, self._runner)
        # Each runs as an asyncio task of its own: a slow platform or embedder must not delay the heartbeat.
        self._periodic_tasks = (PeriodicTask("sweeper", sweeper.sweep, SWEEP_SECONDS), *periodic_tasks)

    async def run(self) -> None:
        """Run jobs until the task is cancelled; running jobs then finish or are queued again for another worker."""
        async with opened(self._queue):
            running = [
                asyncio.create_task(self._repeat(periodic_task), name=periodic_task.name)
                for periodic_task in self._periodic_tasks
            ]
            try:
                await self._run_on()
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)

    async def _run_on(self) -> None:
        while True:
            self._jobs.forget()
            self._runner.live_ids.clear()
            try:
                # A worker that can't take jobs or begin turns must not register:
                # `/readyz` would take it for one that can.
                await self._jobs.check()
                async with self._database.statement() as session:
                    await session.execute(statements.probe)
                await self._queue.run_worker_async(
                    queues=[QUEUE],
                    concurrency=JOBS_PER_SLOT * self._limits.bounds.running,
                    fetch_job_polling_interval=self._limits.poll_seconds,
                    shutdown_graceful_timeout=self._limits.grace_seconds,
                    install_signal_handlers=False,
                    update_heartbeat_interval=HEARTBEAT_SECONDS,
                    stalled_worker_timeout=NEVER_SECONDS,
                )
            except (ConnectorException, DatabaseLost, *REFUSED) as error:
                # Other workers deleted its row while this process was frozen; it restarts with a new row. If it was
                # another error, its connections may have caused it.
                if is_cancelled():
                    # Cancelled while the database was lost: the database error has replaced the CancelledError.
                    return
                log.warning("worker_restarting", cause=str(error.__cause__ or error))
                await replace_connections(self._queue)
            await asyncio.sleep(RESTART_SECONDS)

    async def _repeat(self, task: PeriodicTask) -> None:
        is_lost = False
        while True:
            await asyncio.sleep(task.seconds or 0)
            if task.can_wait:
                await self._runner.gate.wait_until_quiet(QUIET_SECONDS, most=MOST_WAIT_SECONDS)
            try:
                await task.run()
                if task.seconds is None:
                    return
                is_lost = False
            except DatabaseLost:
                # Once for each loss: the tasks run often, and the connections report their failures too.
                if not is_lost:
                    log.warning("database_lost", task=task.name)
                is_lost = True
            except Exception:
                # Periodic tasks work on many rows: one row that fails must not end them.
                log.exception("periodic_task_failed")
            if task.seconds is None:
                await asyncio.sleep(RESTART_SECONDS)
