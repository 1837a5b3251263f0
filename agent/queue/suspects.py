"""Suspects: jobs whose worker died, and which may have killed it.

Each is run again alone in its process. A suspect has the highest priority, so that it is the next job of its place.
`deaths` of its row counts how often it was started alone, and thus, because an ended job leaves the queue, how often
its worker died while it ran alone.

Suspects of several processes run at the same time. One may have killed the worker of another, for instance by taking
the machine's memory, so a death while others ran is not counted; the suspect is then strict: it runs only while no
other suspect runs in any process. The column `is_alone` says that a suspect runs, and not only waits.
"""

from shared.db.database import Database
from shared.db.statements import load_statements

statements = load_statements(__file__)

SUSPECT_PRIORITY = 1_000_000
STRICT_PRIORITY = SUSPECT_PRIORITY + 1
PRIORITIES = {"suspect": SUSPECT_PRIORITY, "strict": STRICT_PRIORITY}
# Between two tries of a suspect that waits for those of other processes.
WAIT_SECONDS = 1.0
# After so many deaths of its worker while a message ran alone, its turn is parked; one more, and it is not even opened.
MAX_DEATHS = 3


async def start_alone(database: Database, job_id: int) -> bool | None:
    """Record that a suspect starts alone; return False if it has to wait for others, None if its job was taken over."""
    async with database.transaction() as session:
        await session.execute(statements.lock_suspects)
        row = (await session.execute(statements.start_alone, {"job_id": job_id, **PRIORITIES})).one_or_none()
        return None if row is None else bool(row.has_started)
