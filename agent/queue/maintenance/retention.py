"""Retention: removes rows that are older than `RETENTION_…` says, in small steps beside the running turns.

The transcript (`turns` and `messages`) stays, as do the totals. No table is partitioned by month: its unique keys would
have to contain the month, and then `inbox` could not refuse an event that comes again.
"""

from dataclasses import dataclass

from sqlalchemy import TextClause, text

from agent.queue.maintenance.steps import Steps
from shared.log import get_logger
from shared.settings import Settings

# Rows of a step: its locks and its write-ahead log are as small as a turn's.
STEP_ROWS = 500

# Finished jobs slow down every fetch of the queue.
REMOVE_JOBS = text(f"""
DELETE FROM procrastinate_jobs WHERE id IN (
    SELECT id FROM procrastinate_jobs AS job WHERE status IN ('succeeded', 'failed', 'cancelled', 'aborted')
      AND NOT EXISTS (
          SELECT FROM procrastinate_events WHERE job_id = job.id AND at > now() - :days * interval '1 day'
      )
    LIMIT {STEP_ROWS}
) RETURNING id
""")

log = get_logger()


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of rows: kept for `days`, and longer while the condition `is_over` is false."""

    table: str
    days: int
    is_over: str = "true"

    @property
    def remove_step(self) -> TextClause:
        """Return the statement for one step: it looks at the rows that follow `:after` in the order of their ids.

        Ids grow with the age, so that no index on the age is needed, which every turn would have to write. The limit
        is a number in the text and stands inside: the planner then knows that conditions meet this many rows only, and
        looks each of them up where it would have read whole tables.
        """
        return text(f"""
WITH step AS (
    SELECT id, created_at < now() - :days * interval '1 day' AS is_old, {self.is_over} AS is_over
    FROM (SELECT * FROM {self.table} WHERE id > :after ORDER BY id LIMIT {STEP_ROWS}) AS {self.table}
), removed AS (
    DELETE FROM {self.table} WHERE id IN (SELECT id FROM step WHERE is_old AND is_over) RETURNING id
)
SELECT max(id) AS last, count(*) = {STEP_ROWS} AND bool_and(is_old) AS has_more,
       (SELECT count(*) FROM removed) AS removed
FROM step
""")


def list_kinds(settings: Settings) -> tuple[Kind, ...]:
    """Return what is removed; the inbox first, because the answer to a repeated event is read from the others."""
    return (
        Kind("inbox", settings.retention_inbox_days, "status NOT IN ('waiting', 'claimed')"),
        Kind("outbox", settings.retention_outbox_days, "status IN ('delivered', 'failed')"),
        Kind(
            "turn_events",
            settings.retention_events_days,
            "NOT EXISTS (SELECT FROM turns WHERE turns.id = turn_events.turn_id AND turns.status = 'running')",
        ),
        Kind("turn_contexts", settings.retention_events_days),
        Kind("full_results", settings.retention_events_days),
        Kind("confirmations", settings.retention_confirmations_days),
        Kind("scheduled_jobs", settings.retention_scheduled_jobs_days, "ended_at < now() - :days * interval '1 day'"),
        # What the totals have not counted yet stays.
        Kind(
            "token_logs",
            settings.retention_logs_days,
            "id <= (SELECT last_id FROM counted_rows WHERE table_name = 'token_logs')",
        ),
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
    while len(rows := await steps.run(REMOVE_JOBS, parameters)) == STEP_ROWS:
        count += STEP_ROWS
    return count + len(rows)
