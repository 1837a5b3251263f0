"""Deletes files that are older than their server keeps them: the content first, so that a failure leaves the row."""

from agent.queue.maintenance.steps import Steps
from shared.db.statements import load_statements
from shared.errors import NotFound, Unavailable
from shared.files.storage import Storage
from shared.log import get_logger

statements = load_statements(__file__)

STEP_FILES = 100

log = get_logger()


async def remove_expired_files(steps: Steps, storage: Storage) -> int:
    """Delete all files that have expired; return their number."""
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
