"""Retention: removes rows that are older than `RETENTION_…` says, in small steps beside the running turns.

The transcript (`turns` and `messages`) stays, as do the totals. No table is partitioned by month: its unique keys would
have to contain the month, and then `inbox` could not refuse an event that comes again.
"""

from agent.queue.maintenance.steps import Steps
from shared.db.statements import load_statements
from shared.log import get_logger
from shared.settings import Settings

statements = load_statements(__file__)


log = get_logger()


def list_days(settings: Settings) -> dict[str, int]:
    """Return the days of each table; the inbox first, as the answer to a repeated event is read from the others."""
    return {
        "inbox": settings.retention_inbox_days,
        "outbox": settings.retention_outbox_days,
        "turn_events": settings.retention_events_days,
        "turn_contexts": settings.retention_events_days,
        "full_results": settings.retention_events_days,
        "confirmations": settings.retention_confirmations_days,
        "scheduled_jobs": settings.retention_scheduled_jobs_days,
        "token_logs": settings.retention_logs_days,
    }


async def remove_expired(steps: Steps, settings: Settings) -> dict[str, int]:
    """Remove everything that has expired; return the number of removed rows by table."""
    counts: dict[str, int] = {}
    for table, days in list_days(settings).items():
        parameters, has_more = {"table": table, "days": days, "after": 0}, True
        counts[table] = 0
        while has_more and (rows := await steps.run(statements.remove_expired, parameters)):
            counts[table] += rows[0].removed
            parameters["after"], has_more = rows[0].last, rows[0].has_more
    if any(counts.values()):
        log.info("expired_rows_removed", **counts)
    return counts
