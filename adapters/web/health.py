"""Health endpoints for machines: liveness, readiness, metrics."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from sqlalchemy import text
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from adapters.folders import list_migrations
from adapters.web.auth import app_of, with_token
from agent.app import App
from agent.maintenance.totals import read_call_totals, read_turn_totals
from agent.queue.heartbeats import LiveWorkers
from shared.db.compatibility import find_incompatibility, find_old_platform, list_revisions
from shared.db.database import VERSIONS
from shared.errors import Unavailable
from shared.memory.vectors import read_progress

# The outcomes of turns whose status is "answered".
ANSWERED = ("finished", "unfinished")
QUEUES = text("""
SELECT (SELECT count(*) FROM inbox WHERE status = 'waiting'),
       (SELECT count(*) FROM turns WHERE status = 'running' AND parent_turn_id IS NULL),
       (SELECT count(*) FROM outbox WHERE status IN ('pending', 'claimed')),
       (SELECT coalesce(extract(epoch FROM now() - min(created_at)), 0) FROM inbox WHERE status = 'waiting')
""")


async def get_health(_request: Request) -> Response:
    """Answer that the process runs."""
    return JSONResponse({"status": "ok"})


async def get_readiness(request: Request) -> Response:
    """Answer whether a message could be accepted and answered: the database, its tables, and a worker."""
    app = app_of(request)
    reason = await find_obstacle(app) or await find_missing_worker(app, request.app.state.workers)
    if reason is None:
        return JSONResponse({"status": "ready"})
    return JSONResponse({"status": "not_ready", "error": {"code": "not_ready", "message": reason}}, 503)


async def find_obstacle(app: App) -> str | None:
    """Return why no message can be accepted, None if one can."""
    try:
        async with app.database.transaction() as session:
            reason = await find_incompatibility(session, list_revisions(VERSIONS))
            return reason or await find_old_platform(session, list_migrations())
    except Unavailable:
        return "The database can't be reached."


async def find_missing_worker(app: App, workers: LiveWorkers) -> str | None:
    """Return why no turn can begin, None if a worker is there to run it."""
    try:
        async with app.database.transaction() as session:
            is_there = await workers.find(session, app.clock.monotonic())
    except Unavailable:
        return "The database can't be reached."
    return None if is_there else "No worker runs: messages are stored, and wait for one. Start one: parley worker."


@with_token
async def get_metrics(request: Request) -> Response:
    """Return Prometheus metrics; they are read from the tables, so every process returns the same."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(Snapshot(await read_metrics(app_of(request))))
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
        waiting, running, unsent, age = (await session.execute(QUEUES)).one()
    calls = CounterMetricFamily("parley_model_calls", "Model calls.", labels=["model", "purpose"])
    tokens = CounterMetricFamily("parley_tokens", "Tokens by kind.", labels=["model", "purpose", "kind"])
    cost = CounterMetricFamily("parley_cost_usd", "Known cost in US dollars.", labels=["model", "purpose"])
    for model, purpose, count, given, cached, made, dollars in ledger:
        calls.add_metric([model, purpose], count)
        cost.add_metric([model, purpose], float(dollars))
        for kind, sum_of_kind in (("input", given), ("cached", cached), ("output", made)):
            tokens.add_metric([model, purpose, kind], sum_of_kind)
    gauges = (
        ("parley_inbox_waiting", "Messages that wait for a turn.", waiting),
        ("parley_inbox_oldest_seconds", "Age of the oldest message that waits.", age),
        ("parley_turns_running", "Turns that run.", running),
        ("parley_outbox_open", "Replies that are not delivered.", unsent),
    )
    families = [GaugeMetricFamily(name, about, value=float(value)) for name, about, value in gauges]
    return [*_turns(turns), calls, tokens, cost, *families, *await _vectors(app)]


async def _vectors(app: App) -> list[Metric]:
    if app.settings.embedding_model is None:
        return []
    progress = await read_progress(app.database, app.settings.embedding_model)
    missing = GaugeMetricFamily("parley_memories_without_vectors", "Memories to be embedded.", labels=["model"])
    share = GaugeMetricFamily("parley_memory_vectors_ratio", "Share of memories with vectors.", labels=["model"])
    missing.add_metric([progress.model], progress.missing)
    share.add_metric([progress.model], progress.share)
    return [missing, share]


def _turns(rows: Sequence[Any]) -> list[Metric]:
    by_status = CounterMetricFamily("parley_turns", "Turns by how they ended.", labels=["status"])
    counts: Counter[str] = Counter()
    labels = ["mode", "outcome"]
    seconds = SummaryMetricFamily("parley_turn_seconds", "How long turns took.", labels=labels)
    waves = SummaryMetricFamily("parley_turn_waves", "Waves of tool calls in a turn.", labels=labels)
    calls = SummaryMetricFamily("parley_turn_model_calls", "Model calls in a turn.", labels=labels)
    for mode, outcome, count, sum_of_seconds, sum_of_waves, sum_of_calls in rows:
        counts["answered" if outcome in ANSWERED else outcome] += count
        for family, total in ((seconds, sum_of_seconds), (waves, sum_of_waves), (calls, sum_of_calls)):
            family.add_metric([mode, outcome], count_value=count, sum_value=float(total))
    for status, count in counts.items():
        by_status.add_metric([status], count)
    return [by_status, seconds, waves, calls]
