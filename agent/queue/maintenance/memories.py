"""Deletes memories and summaries that are older than the rows of `memory_retention` say; without a row, nothing."""

from sqlalchemy import TextClause

from agent.queue.maintenance.steps import Steps
from shared.db.statements import load_statements
from shared.log import get_logger

statements = load_statements(__file__)

EXPIRE = {
    "memories": statements.expire_memories,
    "summaries": statements.expire_summaries,
}
STEP_ROWS = 500

log = get_logger()


async def remove_expired_memories(steps: Steps) -> dict[str, int]:
    """Delete everything that has expired; return the numbers of memories and summaries."""
    counts = {name: await _remove(steps, statement) for name, statement in EXPIRE.items()}
    if any(counts.values()):
        log.info("expired_memories_removed", **counts)
    return counts


async def _remove(steps: Steps, statement: TextClause) -> int:
    count, parameters = 0, {"after": 0, "step": STEP_ROWS}
    while (rows := await steps.run(statement, parameters)) and rows[0].has_more:
        count += rows[0].removed
        parameters["after"] = rows[0].last
    return count + sum(int(row.removed) for row in rows)
