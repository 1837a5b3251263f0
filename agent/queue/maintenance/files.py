"""Deletes files that are older than their server keeps them: the content first, so that a failure leaves the row."""

from sqlalchemy import text

from agent.queue.maintenance.steps import Steps
from shared.errors import NotFound, Unavailable
from shared.files.storage import Storage
from shared.log import get_logger

# Files that storage did not delete this time are passed over by `:after`.
LIST_EXPIRED = text("""
SELECT file.id, file.minio_key
FROM servers AS server
JOIN conversations AS place USING (platform, platform_server_id)
JOIN file_records AS file ON file.conversation_id = place.id
WHERE server.files_kept_days IS NOT NULL AND file.id > :after
  AND file.created_at < now() - server.files_kept_days * interval '1 day'
ORDER BY file.id LIMIT :step
""")
REMOVE = text("DELETE FROM file_records WHERE id = ANY(:ids) RETURNING id")
STEP_FILES = 100

log = get_logger()


async def remove_expired_files(steps: Steps, storage: Storage) -> int:
    """Delete all files that have expired; return their number."""
    count, after = 0, 0
    while rows := await steps.run(LIST_EXPIRED, {"after": after, "step": STEP_FILES}):
        after = rows[-1].id
        ids = [row.id for row in rows if await _delete(storage, row.minio_key)]
        count += len(await steps.run(REMOVE, {"ids": ids})) if ids else 0
    if count:
        log.info("expired_files_removed", files=count)
    return count


async def _delete(storage: Storage, key: str) -> bool:
    try:
        await storage.delete(key)
    except NotFound:
        return True
    except Unavailable as error:
        log.warning("expired_file_left", key=key, cause=str(error))
        return False
    return True
