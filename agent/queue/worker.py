"""The worker: keeps jobs running in this process, and queues the jobs of workers that died again.

One job runs one turn. Its lock is the place, so that a place has only one turn at a time. Every worker can run every
job.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from agent.people.billing.budget import end_expired
from agent.queue import inbox
from agent.queue.heartbeats import STALE_SECONDS, Heartbeat, Heartbeats
from agent.queue.job import Bounds, Slots
from agent.queue.jobs import JobQueue, Runner, RunTurn
from agent.queue.suspects import PRIORITIES
from shared.clock import Clock
from shared.db.database import Database, DatabaseLost
from shared.db.errors import REFUSED
from shared.db.statements import load_statements
from shared.log import get_logger

statements = load_statements(__file__)

SWEEP_SECONDS = 2.0
GRACE_SECONDS = 20.0
# For what a lost connection, or a process that died, did not tell.
POLL_SECONDS = 0.25
# Work that can wait begins in such a pause between turns, which need the processors, or when it has waited for long.
QUIET_SECONDS, MOST_WAIT_SECONDS = 0.5, 10.0
# With fewer jobs in work a worker takes those of its own process, whose readers it can answer without the database.
NEAR_JOBS = 4
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
    # Keeps the heartbeat of this process's worker; lets the jobs of dead workers and those that are lost wait again.
    def __init__(self, database: Database, clock: Clock, slots: Slots) -> None:
        self._database, self._clock, self._slots = database, clock, slots
        # The worker that this process is, and all that it has been.
        self.worker_id: int | None = None
        self.own_ids: set[int] = set()
        self._unknown: set[int] = set()
        self.has_others = False
        self._heartbeats = Heartbeats()

    def begin(self, worker_id: int) -> int:
        """Keep the heartbeat of this worker from now on; return its id."""
        self.worker_id = worker_id
        self.own_ids.add(worker_id)
        return worker_id

    async def sweep(self) -> None:
        async with self._database.transaction() as session:
            own = list(self.own_ids)
            if self.worker_id is not None:
                heartbeat = await session.execute(statements.renew_heartbeat, {"id": self.worker_id})
                if not heartbeat.all():
                    # Others held it for dead while this process was frozen.
                    self.worker_id = None
            job_ids = {row.id for row in (await session.execute(statements.list_own_jobs, {"workers": own})).all()}
            # A job that has just ended may not be marked yet: only one that is unknown in two sweeps in a row is lost.
            unknown = job_ids - self._slots.jobs
            lost, self._unknown = unknown & self._unknown, unknown
            heartbeats = (await session.execute(statements.list_heartbeats, {"stale": STALE_SECONDS})).all()
            self.has_others = len(heartbeats) > 1
            dead = self._heartbeats.find_dead((Heartbeat(*row) for row in heartbeats), self._clock.monotonic())
            await session.execute(
                statements.requeue_stale, {"dead": dead, "own": own, "lost": list(lost), **PRIORITIES}
            )
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
        self._limits = limits or Limits()
        slots = Slots(self._limits.bounds)
        self._queue = JobQueue(database, slots)
        self._runner = Runner(
            self._queue, run_turn, database=database, clock=clock, retry_seconds=self._limits.retry_seconds
        )
        self._sweeper = _Sweeper(database, clock, slots)
        # Each runs as an asyncio task of its own: a slow platform or embedder must not delay the heartbeat.
        self._periodic_tasks = (PeriodicTask("sweeper", self._sweeper.sweep, SWEEP_SECONDS), *periodic_tasks)

    @property
    def worker_id(self) -> int | None:
        """Return the id under which it takes jobs now, None while it can take none."""
        return self._sweeper.worker_id

    @property
    def is_near(self) -> bool:
        """Return whether it should take the jobs of this process, because it has little to do or is the only worker."""
        is_quiet = self._runner.count < NEAR_JOBS or not self._sweeper.has_others
        return self.worker_id is not None and is_quiet

    def wake(self) -> None:
        """Look for jobs now, because there may be one."""
        self._runner.wake.set()

    async def run(self) -> None:
        """Run jobs until the task is cancelled; running jobs then finish or are left to another worker."""
        background = [
            asyncio.create_task(self._repeat(periodic_task), name=periodic_task.name)
            for periodic_task in self._periodic_tasks
        ]
        try:
            while True:
                try:
                    await self._take_jobs()
                except REFUSED as error:
                    # Its tables work with other programs, or others held it for dead while this process was frozen.
                    log.warning("worker_restarting", cause=str(error.__cause__ or error))
                    await self._leave()
                await asyncio.sleep(RESTART_SECONDS)
        finally:
            # The heartbeat goes on meanwhile: without it, others would take over running jobs.
            await self._leave()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)

    async def _take_jobs(self) -> None:
        # A worker that can't take jobs must not register: `/readyz` would take it for one that can.
        most, is_lost = JOBS_PER_SLOT * self._limits.bounds.running, False
        while True:
            try:
                worker_id = self._sweeper.worker_id or self._sweeper.begin(await self._queue.register())
                self._runner.wake.clear()
                jobs, may_have_more = await self._queue.take(worker_id, most - self._runner.count)
                is_lost = False
            except DatabaseLost as error:
                if not is_lost:
                    log.warning("worker_waits_for_database", cause=str(error.__cause__ or error))
                is_lost = True
                await asyncio.sleep(RESTART_SECONDS)
                continue
            for job in jobs:
                self._runner.start(job)
            if not may_have_more:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._limits.poll_seconds):
                        await self._runner.wake.wait()

    async def _leave(self) -> None:
        # Running jobs end, or wait for another worker.
        await self._runner.stop(self._limits.grace_seconds)
        worker_id, self._sweeper.worker_id = self._sweeper.worker_id, None
        if worker_id is not None:
            with suppress(DatabaseLost, *REFUSED):
                await self._queue.leave(worker_id)

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
