"""The composition root of a worker: the function that runs turns, and the periodic jobs."""

from collections import Counter
from functools import partial

from msgspec.structs import replace

from adapters.cli.compose import list_periodic_tasks
from agent.app import App
from agent.commands.dry_run.requests import play_waiting, remove_left
from agent.commands.grants.notices import send_notices
from agent.commands.schedules.checks import make_checks
from agent.commands.schedules.firing import fire_due
from agent.memory.summaries.ongoing import FactReader
from agent.memory.summaries.summarizer import Summarizer
from agent.memory.turns import TurnMemories
from agent.people.billing.budget import store_defaults
from agent.people.module_rules import is_off
from agent.personal_data.erasure import finish_erasures
from agent.queue.job import GRACE_SECONDS, Bounds, Limits
from agent.queue.maintenance.retention import (
    make_partitions,
    remove_expired,
    remove_expired_files,
    remove_expired_memories,
)
from agent.queue.maintenance.steps import Steps
from agent.queue.maintenance.totals import count_finished, store_events
from agent.queue.worker import SWEEP_SECONDS, PeriodicTask, Worker
from agent.turn.run import run_turn
from agent.turn.running import Cancellations
from shared.db.errors import server_errors
from shared.db.statements import load_statements
from shared.hooks import ModuleTick
from shared.settings import Settings

statements = load_statements(__file__)

REMEMBER_SECONDS = 0.1
SCHEDULE_SECONDS, CHECK_SECONDS = 0.1, 2.0
SUMMARY_SECONDS, FACT_SECONDS = 5.0, 15.0
PRICE_SECONDS, DRY_RUN_SECONDS = 0.1, 0.1
VECTOR_SECONDS = 5.0
VECTOR_INDEX_SECONDS = 3600.0
MAINTENANCE_SECONDS = 60.0
EVENT_SECONDS = 5.0


def build_worker(app: App, *, grace: float = GRACE_SECONDS, maintenance_seconds: float = MAINTENANCE_SECONDS) -> Worker:
    """Return a worker for this app; when it stops, running turns get `grace` seconds to finish."""
    cancellations = Cancellations()
    app.events.on_cancellation(cancellations.cancel)
    memories = TurnMemories(app.database, app.memory, app.toolbox.find)
    summarizer = Summarizer(app.database, app.models.router, app.memory, clock=app.clock)
    facts = FactReader(app.database, app.models.router, app.memory, clock=app.clock)
    prices = partial(app.models.router.prices.refresh, app.database)
    events = partial(store_events, app.database, app.models.router.take_events, Counter())
    idle_tasks = (
        PeriodicTask("turn memories", memories.run, REMEMBER_SECONDS, waits=True),
        PeriodicTask("memory index", app.memory.index_missing, VECTOR_SECONDS, waits=True),
        PeriodicTask("vectors", app.memory.fill_vectors, VECTOR_SECONDS),
        PeriodicTask("summaries", summarizer.run, SUMMARY_SECONDS),
        PeriodicTask("facts", facts.run, FACT_SECONDS),
        PeriodicTask("budget notices", partial(send_notices, app.database), maintenance_seconds),
        PeriodicTask("model events", events, EVENT_SECONDS),
        PeriodicTask("maintenance", partial(_maintain, app), maintenance_seconds),
    )
    worker = Worker(
        app.database,
        app.clock,
        partial(run_turn, app.turns, cancellations=cancellations),
        periodic_tasks=(
            PeriodicTask("outbox sweeper", app.outbox.sweep, SWEEP_SECONDS, waits=True),
            PeriodicTask("model prices", prices, PRICE_SECONDS, waits=True),
            PeriodicTask("scheduled jobs", partial(fire_due, app.database), SCHEDULE_SECONDS, waits=True),
            PeriodicTask("checks of jobs", partial(make_checks, app), CHECK_SECONDS, waits=True),
            PeriodicTask("dry runs", lambda: play_waiting(app, worker.jobs), DRY_RUN_SECONDS, waits=True),
            PeriodicTask("vector indexes", app.memory.build_vector_indexes, VECTOR_INDEX_SECONDS),
            PeriodicTask("MCP servers", app.tools.mcp.run),
            PeriodicTask("failed modules", app.tools.modules.try_again, maintenance_seconds),
            *(PeriodicTask(tick.name, partial(_run_tick, app, tick), tick.seconds) for tick in app.tools.modules.ticks),
            *list_periodic_tasks(app),
            *(replace(task, can_wait=True) for task in idle_tasks),
        ),
        limits=to_limits(app.settings, grace),
    )
    app.events.notifier.add_worker(worker.jobs)
    app.events.on_change(lambda table: worker.note("model prices") if table in {None, "model_prices"} else None)
    app.events.on_change(lambda table: worker.note("dry runs") if table in {None, "dry_runs"} else None)
    return worker


async def _run_tick(app: App, tick: ModuleTick) -> None:
    # One whose module an admin has switched off waits until it is on again.
    if not await is_off(app.database, tick.module):
        await tick.work(app.context_of(tick.module))


def to_limits(settings: Settings, grace: float) -> Limits:
    """Return the limits of a worker with these settings; `grace` in seconds."""
    bounds = Bounds(settings.max_turns, settings.max_turns_per_person, settings.max_turns_per_server)
    return Limits(bounds, retry_seconds=settings.turn_deadline_seconds, grace_seconds=grace)


async def _maintain(app: App) -> None:
    steps, storage = Steps(app.database, app.clock), app.files.storage
    parts = (
        # Where the database was away at the start, the defaults are stored here.
        partial(_store_defaults, app),
        partial(make_partitions, steps, app.settings),
        partial(steps.run, statements.end_grants),
        partial(count_finished, steps),
        partial(remove_expired, steps, app.settings),
        partial(remove_expired_files, steps, storage),
        partial(remove_expired_memories, steps),
        partial(remove_left, steps),
        partial(finish_erasures, app.database, storage),
        app.credentials.renew,
    )
    refusals: list[Exception] = []
    for part in parts:
        try:
            await part()
        except server_errors() as error:
            # A row that the database can't work with stops what it belongs to, and nothing else.
            refusals.append(error)
    if refusals:
        raise ExceptionGroup("the database refused parts of the maintenance", refusals)


async def _store_defaults(app: App) -> None:
    async with app.database.statement() as session:
        await store_defaults(session, app.settings)
