"""The worker: keeps jobs running in this process, and queues the jobs of workers that died again.

One job runs one turn. Its lock is the place, so that a place has only one turn at a time. Every worker can run every
job.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from agent.live.notifier import JobTaker
from agent.people.billing.budget import end_expired
from agent.queue import inbox
from agent.queue.heartbeats import STALE_SECONDS, Heartbeat, Heartbeats
from agent.queue.job import Limits, Slots
from agent.queue.jobs import JobQueue, Runner, RunTurn
from agent.queue.suspects import PRIORITIES
from shared.clock import Clock
from shared.db.database import Database, DatabaseLost
from shared.db.errors import server_errors
from shared.db.statements import load_statements
from shared.log import get_logger

statements = load_statements(__file__)

SWEEP_SECONDS, LOOK_SECONDS, LOST_SECONDS = 2.0, 1.0, 5.0
# Work that can wait begins in such a pause between turns, which need the processors, or when it has waited for long.
QUIET_SECONDS, MOST_WAIT_SECONDS = 0.5, 10.0
RESTART_SECONDS = 1.0


log = get_logger()


class PeriodicTask(Struct, frozen=True):
    """Background work of a worker: `run` is called every `seconds`; if that is None, once, until it is cancelled.

    Work that nobody waits for `can_wait`: it begins when no turn has run here for half a second, or after ten seconds.
    One that `waits` begins only once the worker has seen that there is something for it to do.
    """

    name: str
    run: Callable[[], Awaitable[object]]
    seconds: float | None = None
    can_wait: bool = False
    waits: bool = False


class _Sweeper:
    # Keeps the heartbeat of this process's worker; lets the jobs of dead workers and those that are lost wait again.
    def __init__(self, database: Database, clock: Clock, runner: Runner) -> None:
        self._database, self._clock, self._runner = database, clock, runner
        self._unknown: set[int] = set()
        self._heartbeats = Heartbeats()

    async def sweep(self) -> None:
        # Nothing here waits for a lock that others may hold for long: the heartbeat would stop.
        async with self._database.statement() as session:
            worker_id, own = self._runner.worker_id, list(self._runner.queue.own_ids)
            heartbeat = await session.execute(statements.renew_heartbeat, {"id": worker_id})
            if not heartbeat.all() and self._runner.worker_id == worker_id:
                # Others held it for dead while this process was frozen, and it has not begun again since.
                self._runner.queue.worker_id = None
            job_ids = {row.id for row in (await session.execute(statements.list_own_jobs, {"workers": own})).all()}
            # A job that has just ended may not be marked yet: only one that is unknown in two sweeps in a row is lost.
            unknown = job_ids - self._runner.queue.slots.jobs
            lost, self._unknown = unknown & self._unknown, unknown
            heartbeats = (await session.execute(statements.list_heartbeats, {"stale": STALE_SECONDS})).all()
            self._runner.has_others = len(heartbeats) > 1
            dead = self._heartbeats.find_dead((Heartbeat(*row) for row in heartbeats), self._clock.monotonic())
            await session.execute(
                statements.requeue_stale, {"dead": dead, "own": own, "lost": list(lost), **PRIORITIES}
            )
            if dead:
                await session.execute(statements.remove_workers, {"dead": dead})

    async def requeue_lost(self) -> None:
        async with self._database.statement() as session:
            await inbox.requeue_lost(session)

    async def end_expired(self) -> None:
        async with self._database.statement() as session:
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
        limits = limits or Limits()
        queue = JobQueue(database, Slots(limits.bounds))
        self._runner = Runner(queue, run_turn, clock=clock, limits=limits)
        self._database, self._sweeper = database, _Sweeper(database, clock, self._runner)
        self._seen: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        # Each runs as an asyncio task of its own: a slow platform or embedder must not delay the heartbeat.
        self._periodic_tasks = (
            PeriodicTask("sweeper", self._sweeper.sweep, SWEEP_SECONDS),
            PeriodicTask("lost jobs", self._sweeper.requeue_lost, LOST_SECONDS),
            PeriodicTask("expired reservations", self._sweeper.end_expired, SWEEP_SECONDS, waits=True),
            PeriodicTask("look", self._look, LOOK_SECONDS),
            *periodic_tasks,
        )

    @property
    def jobs(self) -> JobTaker:
        """Return what takes its jobs when it is woken."""
        return self._runner

    def note(self, task: str) -> None:
        """Let the task of this name begin: there is something for it to do."""
        self._seen[task].set()

    async def run(self) -> None:
        """Run jobs until the task is cancelled; running jobs then finish or are left to another worker."""
        background = [
            asyncio.create_task(self._repeat(periodic_task), name=periodic_task.name)
            for periodic_task in self._periodic_tasks
        ]
        try:
            while True:
                await self._take_jobs()
                await asyncio.sleep(RESTART_SECONDS)
        finally:
            try:
                # The heartbeat goes on meanwhile: without it, others would take over running jobs.
                await self._runner.leave()
            finally:
                # Also where the wait for running jobs is cancelled.
                for task in background:
                    task.cancel()
                await asyncio.gather(*background, return_exceptions=True)

    async def _take_jobs(self) -> None:
        try:
            await asyncio.create_task(self._runner.take_jobs(), name="jobs")
        except server_errors() as error:
            # Its tables work with other programs, or others held it for dead while this process was frozen.
            log.warning("worker_restarting", cause=str(error.__cause__ or error))
            await self._runner.leave()

    async def _look(self) -> None:
        tasks = ["jobs", *(task.name for task in self._periodic_tasks if task.waits)]
        try:
            # One statement for all, so that a process at rest asks the database little.
            async with self._database.statement() as session:
                tasks = (await session.execute(statements.look)).one().tasks
        finally:
            # A table that can't be read keeps only the task from its work that reads it.
            for task in tasks:
                self.note(task)
            if "jobs" in tasks:
                self._runner.wake()

    async def _repeat(self, task: PeriodicTask) -> None:
        is_lost = False
        while True:
            await asyncio.sleep(task.seconds or 0)
            if task.waits:
                await self._seen[task.name].wait()
                self._seen[task.name].clear()
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
