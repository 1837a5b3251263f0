"""Retention: removes rows that are older than `RETENTION_…` says, in small steps beside the running turns.

The transcript (`turns` and `messages`) stays, as do the totals. No table is partitioned by month: its unique keys would
have to contain the month, and then `inbox` could not refuse an event that comes again.
"""

from dataclasses import dataclass

from sqlalchemy import TextClause

from agent.queue.maintenance.steps import Steps
from shared.db.statements import load_statements
from shared.log import get_logger
from shared.settings import Settings

statements = load_statements(__file__)

# Rows of a step: its locks and its write-ahead log are as small as a turn's.
STEP_ROWS = 500


log = get_logger()


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of rows, kept for `days`."""

    table: str
    days: int
    remove_step: TextClause


def list_kinds(settings: Settings) -> tuple[Kind, ...]:
    """Return what is removed; the inbox first, because the answer to a repeated event is read from the others."""
    return (
        Kind("inbox", settings.retention_inbox_days, statements.remove_inbox),
        Kind("outbox", settings.retention_outbox_days, statements.remove_outbox),
        Kind("turn_events", settings.retention_events_days, statements.remove_turn_events),
        Kind("turn_contexts", settings.retention_events_days, statements.remove_turn_contexts),
        Kind("full_results", settings.retention_events_days, statements.remove_full_results),
        Kind("confirmations", settings.retention_confirmations_days, statements.remove_confirmations),
        Kind("scheduled_jobs", settings.retention_scheduled_jobs_days, statements.remove_scheduled_jobs),
        Kind("token_logs", settings.retention_logs_days, statements.remove_token_logs),
    )


async def remove_expired(steps: Steps, settings: Settings) -> dict[str, int]:
    """Remove everything that has expired; return the number of removed rows by table."""
    counts = {kind.table: await _remove_kind(steps, kind) for kind in list_kinds(settings)}
    if any(counts.values()):
        log.info("expired_rows_removed", **counts)
    return counts | {"procrastinate_jobs": await _remove_jobs(steps, settings.retention_queue_days)}


async def _remove_kind(steps: Steps, kind: Kind) -> int:
    count, parameters = 0, {"days": kind.days, "after": 0}
    statement = kind.remove_step
    while (rows := await steps.run(statement, parameters)) and rows[0].has_more:
        count += rows[0].removed
        parameters["after"] = rows[0].last
    return count + sum(int(row.removed) for row in rows)


async def _remove_jobs(steps: Steps, days: int) -> int:
    count, parameters = 0, {"days": days}
    while len(rows := await steps.run(statements.remove_jobs, parameters)) == STEP_ROWS:
        count += STEP_ROWS
    return count + len(rows)
