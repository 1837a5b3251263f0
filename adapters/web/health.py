"""Health endpoints for machines: liveness, readiness, metrics."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from adapters.tables import list_schemas
from adapters.web.guard import app_of, with_token
from agent.app import App
from agent.queue.heartbeats import LiveWorkers
from agent.queue.maintenance.totals import (
    TOOL_SECONDS,
    read_call_totals,
    read_event_totals,
    read_tool_totals,
    read_turn_totals,
)
from shared.db.connections import UnfitDatabase
from shared.db.migrations import VERSIONS, find_incompatibility, find_missing_tables, list_revisions
from shared.db.statements import load_statements
from shared.errors import Unavailable
from shared.memory.vectors import read_progress

statements = load_statements(__file__)

# Whoever asks, such as a load balancer, waits no longer.
READY_SECONDS = 4.0
# One cell that says nothing must leave time to tell of the others.
CELL_SECONDS = 2.0
UNREACHABLE = "The database can't be reached."
NO_WORKER = (
    "No worker can take a turn: messages are stored, and wait for one. Start one: parley worker; if one runs, its log "
    "says why it can't (worker_restarting)."
)
FEWER_WORKERS = "Only {workers} of the {least} workers that were asked for can take turns; the others' logs say why."
# The outcomes of turns whose status is "answered".
ANSWERED = ("finished", "unfinished")
# What the codes of errors have in common that say that a budget is used up.
OF_A_BUDGET = "budget"


# Every metric that is read from the tables; docs/reference/metrics.md is made of this. Counters get `_total`.
METRICS: Mapping[str, tuple[type[Metric], str, tuple[str, ...]]] = {
    "parley_worker_ready": (GaugeMetricFamily, "1 while a worker runs, else 0.", ()),
    "parley_workers": (GaugeMetricFamily, "Workers that run, in all processes.", ()),
    "parley_workers_configured": (
        GaugeMetricFamily,
        "Workers that this `parley run` starts; 0 of `parley adapter web`.",
        (),
    ),
    "parley_bus_connected": (
        GaugeMetricFamily,
        "With BUS_URL: 1 while this process uses it, else 0.",
        (),
    ),
    "parley_inbox_waiting": (GaugeMetricFamily, "Messages that wait for a turn.", ()),
    "parley_inbox_oldest_seconds": (GaugeMetricFamily, "Age of the oldest message that waits.", ()),
    "parley_turns_running": (GaugeMetricFamily, "Turns that run.", ()),
    "parley_turns": (CounterMetricFamily, "Turns by how they ended.", ("status",)),
    "parley_turn_seconds": (SummaryMetricFamily, "How long turns took.", ("mode", "outcome")),
    "parley_turn_waves": (SummaryMetricFamily, "Waves of tool calls in a turn.", ("mode", "outcome")),
    "parley_turn_model_calls": (SummaryMetricFamily, "Model calls in a turn.", ("mode", "outcome")),
    "parley_turn_errors": (CounterMetricFamily, "Turns that ended with an error.", ("error",)),
    "parley_budget_refusals": (CounterMetricFamily, "Of these, those that a budget refused or cut short.", ("error",)),
    "parley_tool_seconds": (
        HistogramMetricFamily,
        "From the record of a tool call to that of its result.",
        ("tool", "outcome"),
    ),
    "parley_model_calls": (CounterMetricFamily, "Model calls, from the ledger.", ("model", "purpose")),
    "parley_model_calls_unpriced": (CounterMetricFamily, "Calls whose price is unknown.", ("model", "purpose")),
    "parley_tokens": (CounterMetricFamily, "Tokens, from the ledger.", ("model", "purpose", "kind")),
    "parley_cost_usd": (CounterMetricFamily, "Cost of the calls whose price is known.", ("model", "purpose")),
    "parley_route_failures": (CounterMetricFamily, "Attempts at model calls that failed.", ("model", "cause")),
    "parley_fallbacks": (
        CounterMetricFamily,
        "Answers of another model than the one that was asked first.",
        ("model", "answered"),
    ),
    "parley_outbox_open": (GaugeMetricFamily, "Replies that are not delivered yet.", ("adapter",)),
    "parley_outbox_oldest_seconds": (GaugeMetricFamily, "Age of the oldest of them.", ("adapter",)),
    "parley_outbox_failed": (GaugeMetricFamily, "Replies that could not be delivered, as long as they are kept.", ()),
    "parley_database_failovers": (GaugeMetricFamily, "Failovers and restores of the database, ever.", ()),
    "parley_lost_answers": (
        GaugeMetricFamily,
        "Answers that were given and whose turns failovers have lost, ever.",
        (),
    ),
    "parley_lost_messages": (GaugeMetricFamily, "Accepted messages that failovers have lost, ever.", ()),
    "parley_memories": (GaugeMetricFamily, "Memories that recall can find.", ()),
    "parley_turns_unremembered": (GaugeMetricFamily, "Turns whose messages are not memories yet.", ()),
    "parley_memories_without_vectors": (
        GaugeMetricFamily,
        "With EMBEDDING_MODEL: memories to be embedded.",
        ("model",),
    ),
    "parley_memory_vectors_ratio": (
        GaugeMetricFamily,
        "With EMBEDDING_MODEL: share of memories with vectors.",
        ("model",),
    ),
}


async def get_health(_request: Request) -> Response:
    """Answer that the process runs."""
    return JSONResponse({"status": "ok"})


async def get_readiness(request: Request) -> Response:
    """Answer whether a message is accepted: the database and its tables; and how many workers there are to answer it.

    Without a worker messages are stored and wait for one, and turning them away would help nobody. With `?workers=N` it
    is ready only with so many.
    """
    looking = asyncio.create_task(_find_readiness(request), name="readiness")
    await asyncio.wait({looking}, timeout=READY_SECONDS)
    # It is not waited for: a connection to a silent server takes its time to end.
    outcome = looking.result() if looking.done() else f"The database does not answer within {READY_SECONDS:.0f} s."
    looking.cancel()
    if not isinstance(outcome, str):
        return JSONResponse({"status": "ready", **outcome})
    return JSONResponse({"status": "not_ready", "error": {"code": "not_ready", "message": outcome}}, 503)


async def _find_readiness(request: Request) -> str | dict[str, Any]:
    # Why it is not ready, or how many workers there are.
    state = request.app.state
    least = request.query_params.get("workers", "0")
    least_workers = int(least) if least.isdecimal() and len(least) < 4 else 0
    if state.cells is not None:
        return await _find_readiness_of_cells(state)
    workers = await _count_or_refuse(app_of(request), state.workers)
    if isinstance(workers, str):
        return workers
    if workers < least_workers:
        return FEWER_WORKERS.format(workers=workers, least=least_workers) if workers else NO_WORKER
    counts = {"workers": workers} | (
        {"configured_workers": state.configured_workers} if state.configured_workers else {}
    )
    return counts if workers else {**counts, "message": NO_WORKER}


async def _find_readiness_of_cells(state: State) -> str | dict[str, Any]:
    # A door serves as long as one cell does: a fault reaches the people of its own cell only.
    cells: dict[str, dict[str, Any]] = {name: {"message": UNREACHABLE} for name in state.cells.names}
    counting = {
        name: asyncio.create_task(
            _count_or_refuse(app, state.workers_of_cells.setdefault(name, LiveWorkers())), name="readiness"
        )
        for name, app in state.cells.apps.items()
    }
    await asyncio.wait(counting.values(), timeout=CELL_SECONDS)
    for name, count in counting.items():
        if not count.done():
            # As above, it is not waited for.
            count.cancel()
            continue
        workers = count.result()
        cells[name] = {"message": workers} if isinstance(workers, str) else {"workers": workers}
        if workers == 0:
            cells[name]["message"] = NO_WORKER
    if any("workers" in cell for cell in cells.values()):
        return {"cells": cells}
    return "; ".join(f"{name}: {cell['message']}" for name, cell in cells.items())


async def _count_or_refuse(app: App, live_workers: LiveWorkers) -> int | str:
    # How many workers there are, or why it is not ready.
    try:
        if (reason := await find_obstacle(app)) is not None:
            return reason
        return await count_workers(app, live_workers)
    except Unavailable:
        return UNREACHABLE


async def find_obstacle(app: App) -> str | None:
    """Return why no message can be accepted; None if it can."""
    try:
        await app.database.verify()
        async with app.database.transaction() as session:
            reason = await find_incompatibility(session, list_revisions(VERSIONS))
            reason = reason or await find_missing_tables(session, list_schemas(app.settings.modules_path))
    except Unavailable as error:
        return str(error.__cause__) if isinstance(error.__cause__, UnfitDatabase) else UNREACHABLE
    return reason


async def count_workers(app: App, workers: LiveWorkers) -> int:
    """Return how many workers live, in all processes."""
    async with app.database.transaction() as session:
        return await workers.count(session, app.clock.monotonic())


@with_token
async def get_metrics(request: Request) -> Response:
    """Return Prometheus metrics; they are read from the tables, so every process returns the same."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    app, state = app_of(request), request.app.state
    workers = await count_workers(app, state.workers)
    gauges = {
        "parley_worker_ready": workers > 0,
        "parley_workers": workers,
        "parley_workers_configured": state.configured_workers,
    }
    if (is_connected := app.events.notifier.bus.is_connected) is not None:
        gauges["parley_bus_connected"] = is_connected
    own = [build_gauge(name, value) for name, value in gauges.items()]
    registry.register(Snapshot([*own, *await read_metrics(app)]))
    return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


class Snapshot:
    """Metrics of one scrape."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        """Return the metrics."""
        return self._metrics


async def read_metrics(app: App) -> list[Metric]:
    """Return the metrics from the tables."""
    async with app.database.transaction() as session:
        turns = await read_turn_totals(session)
        ledger = await read_call_totals(session)
        tools = await read_tool_totals(session)
        events = await read_event_totals(session)
        queue_length, running, age, undeliverable, memories, unremembered = (
            await session.execute(statements.count_queues)
        ).one()
        backlog = (await session.execute(statements.count_backlog)).all()
        failovers = (await session.execute(statements.count_failovers)).one()
    gauges = {
        "parley_inbox_waiting": queue_length,
        "parley_inbox_oldest_seconds": age,
        "parley_turns_running": running,
        "parley_outbox_failed": undeliverable,
        "parley_database_failovers": failovers.failovers,
        "parley_lost_answers": failovers.answers,
        "parley_lost_messages": failovers.messages,
        "parley_memories": memories,
        "parley_turns_unremembered": unremembered,
    }
    families = [build_gauge(name, value) for name, value in gauges.items()]
    unsent, oldest = build_family("parley_outbox_open"), build_family("parley_outbox_oldest_seconds")
    rows_by_adapter = {row.adapter: row for row in backlog}
    for adapter in sorted({*rows_by_adapter, *app.senders}):
        row = rows_by_adapter.get(adapter)
        unsent.add_metric([adapter], float(row.replies) if row else 0.0)
        oldest.add_metric([adapter], float(row.age) if row else 0.0)
    families += [unsent, oldest]
    if app.settings.embedding_model is not None:
        progress = await read_progress(app.database, app.settings.embedding_model)
        missing, share = build_family("parley_memories_without_vectors"), build_family("parley_memory_vectors_ratio")
        missing.add_metric([progress.model], progress.missing)
        share.add_metric([progress.model], progress.share)
        families += [missing, share]
    return [*_turns_and_calls(turns, ledger), *_tools_and_events(tools, events), *families]


def build_family(name: str) -> Any:
    """Return one of `METRICS` without values; each kind adds values with arguments of its own."""
    kind, meaning, labels = METRICS[name]
    return kind(name, meaning, labels=labels)  # type: ignore[call-arg]  # every kind of family takes labels


def build_gauge(name: str, value: float) -> Metric:
    """Return a gauge of `METRICS` without labels."""
    return GaugeMetricFamily(name, METRICS[name][1], value=float(value))


def _tools_and_events(tools: Sequence[Any], events: Sequence[Any]) -> list[Metric]:
    seconds = build_family("parley_tool_seconds")
    for (tool, outcome), group in groupby(tools, key=lambda row: (row.tool, row.outcome)):
        classes = {row.most_seconds: row for row in group}
        below, buckets = 0, []
        for bound in (*TOOL_SECONDS, float("inf")):
            below += int(classes[bound].calls) if bound in classes else 0
            buckets.append(("+Inf" if bound == float("inf") else str(bound), below))
        total = sum(float(class_.seconds) for class_ in classes.values())
        seconds.add_metric([tool, outcome], buckets, sum_value=total)
    errors, refusals = build_family("parley_turn_errors"), build_family("parley_budget_refusals")
    failures, fallbacks = build_family("parley_route_failures"), build_family("parley_fallbacks")
    families = {"turn_error": errors, "route_failure": failures, "fallback": fallbacks}
    for kind, subject, detail, count in events:
        families[kind].add_metric([subject, detail] if detail else [subject], count)
        if kind == "turn_error" and OF_A_BUDGET in subject:
            refusals.add_metric([subject], count)
    return [seconds, *families.values(), refusals]


def _turns_and_calls(turns: Sequence[Any], ledger: Sequence[Any]) -> list[Metric]:
    by_status = build_family("parley_turns")
    counts: Counter[str] = Counter()
    seconds = build_family("parley_turn_seconds")
    waves = build_family("parley_turn_waves")
    calls_of_turns = build_family("parley_turn_model_calls")
    for mode, outcome, count, sum_of_seconds, sum_of_waves, sum_of_calls in turns:
        counts["answered" if outcome in ANSWERED else outcome] += count
        for family, total in ((seconds, sum_of_seconds), (waves, sum_of_waves), (calls_of_turns, sum_of_calls)):
            family.add_metric([mode, outcome], count_value=count, sum_value=float(total))
    for status, count in counts.items():
        by_status.add_metric([status], count)
    calls, unpriced = build_family("parley_model_calls"), build_family("parley_model_calls_unpriced")
    tokens, cost = build_family("parley_tokens"), build_family("parley_cost_usd")
    for model, purpose, count, input_tokens, cached, output_tokens, dollars, without_price in ledger:
        calls.add_metric([model, purpose], count)
        unpriced.add_metric([model, purpose], without_price)
        if without_price < count:
            # An unknown price is no price of 0.
            cost.add_metric([model, purpose], float(dollars))
        for kind, sum_of_kind in (("input", input_tokens), ("cached", cached), ("output", output_tokens)):
            tokens.add_metric([model, purpose, kind], sum_of_kind)
    return [by_status, seconds, waves, calls_of_turns, calls, unpriced, tokens, cost]
