"""Retention: removes rows, memories and files that are older than a setting, an admin or their server says, in steps.

The transcript (`turns` and `messages`) stays, as do the totals. What a turn leaves beside it is partitioned by the turn
and goes by the partition; of the other tables, single rows go (docs/decisions/0016-partitions.md).
"""

from agent.queue.maintenance.steps import Steps
from shared.db.statements import load_statements
from shared.errors import NotFound, Unavailable
from shared.files.storage import Storage
from shared.log import get_logger
from shared.settings import Settings

statements = load_statements(__file__)

log = get_logger()

PARTITIONED = ("turn_events", "turn_contexts", "full_results")
# Without a row of `memory_retention` nothing of these expires.
MEMORIES = {"memories": statements.expire_memories, "summaries": statements.expire_summaries}
STEP_ROWS = 500
STEP_FILES = 100


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


async def make_partitions(steps: Steps, settings: Settings) -> int:
    """Make the partitions for the turns that are still to come; return how many were made.

    Warns when turns have come for which there was none: they are in default partitions, and nothing is lost.
    """
    rows = await steps.run(statements.make_partitions, {"days": settings.retention_events_days})
    for row in await steps.run(statements.list_strays):
        log.warning("turns_without_partition", table=row.table_name, last_turn=row.last_turn_id)
    return rows[0].made if rows else 0


async def remove_expired(steps: Steps, settings: Settings) -> dict[str, int]:
    """Remove everything that has expired; return the number of removed rows by table."""
    counts: dict[str, int] = {}
    for table, days in list_days(settings).items():
        counts[table], oldest = 0, {"table": table, "days": days}
        if table in PARTITIONED:
            while (rows := await steps.run(statements.drop_partition, oldest)) and rows[0].dropped is not None:
                counts[table] += rows[0].dropped
        parameters, has_more = oldest | {"after": 0}, True
        while has_more and (rows := await steps.run(statements.remove_expired, parameters)):
            counts[table] += rows[0].removed
            parameters["after"], has_more = rows[0].last, rows[0].has_more
    if any(counts.values()):
        log.info("expired_rows_removed", **counts)
    return counts


async def remove_expired_memories(steps: Steps) -> dict[str, int]:
    """Delete the memories and summaries that have expired; return the number of each."""
    counts = dict.fromkeys(MEMORIES, 0)
    for name, statement in MEMORIES.items():
        parameters = {"after": 0, "step": STEP_ROWS}
        while (rows := await steps.run(statement, parameters)) and rows[0].has_more:
            counts[name] += rows[0].removed
            parameters["after"] = rows[0].last
        counts[name] += sum(int(row.removed) for row in rows)
    if any(counts.values()):
        log.info("expired_memories_removed", **counts)
    return counts


async def remove_expired_files(steps: Steps, storage: Storage) -> int:
    """Delete the files that have expired, the content first, so that a failure leaves the row; return their number."""
    count, after = 0, 0
    while rows := await steps.run(statements.list_expired_files, {"after": after, "step": STEP_FILES}):
        after = rows[-1].id
        ids = []
        for row in rows:
            try:
                await storage.delete(row.minio_key)
            except NotFound:
                pass
            except Unavailable as error:
                log.warning("expired_file_left", key=row.minio_key, cause=str(error))
                continue
            ids.append(row.id)
        count += len(await steps.run(statements.remove_files, {"ids": ids})) if ids else 0
    if count:
        log.info("expired_files_removed", files=count)
    return count
