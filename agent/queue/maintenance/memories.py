"""Deletes memories and summaries that are older than the rows of `memory_retention` say; without a row, nothing."""

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
    counts = dict.fromkeys(EXPIRE, 0)
    for name, statement in EXPIRE.items():
        parameters = {"after": 0, "step": STEP_ROWS}
        while (rows := await steps.run(statement, parameters)) and rows[0].has_more:
            counts[name] += rows[0].removed
            parameters["after"] = rows[0].last
        counts[name] += sum(int(row.removed) for row in rows)
    if any(counts.values()):
        log.info("expired_memories_removed", **counts)
    return counts
