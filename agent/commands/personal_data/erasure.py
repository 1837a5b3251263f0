"""Erases a person: first the content of their files, then quotes of them, then all rows in one transaction.

The wish is stored before anything is erased. Each step can be repeated: after a crash a worker goes on, and only what
storage no longer holds loses its row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncSession

from agent.commands.personal_data.receipts import sign_receipt
from agent.memory.turns import DELETED
from agent.queue.redaction import redact
from shared.db.database import Database
from shared.errors import Unavailable
from shared.files.storage import Storage
from shared.log import get_logger
from shared.settings import Secrets

STEP = 100

REQUEST = text("""
WITH made AS (
    INSERT INTO erasures (user_id) SELECT id FROM users WHERE id = :user_id ON CONFLICT DO NOTHING RETURNING id
)
SELECT id FROM made UNION ALL SELECT id FROM erasures WHERE user_id = :user_id LIMIT 1
""")
FIND = text("SELECT id FROM erasures WHERE user_id = :user_id")
OPEN = text("SELECT id FROM erasures WHERE finished_at IS NULL ORDER BY id")
SHOW = text("SELECT id, user_id, created_at, finished_at, erased FROM erasures WHERE id = :id")
FILES = text("""
SELECT f.id, f.minio_key FROM file_records AS f JOIN erasures AS e ON e.user_id = f.user_id
WHERE e.id = :id AND e.finished_at IS NULL ORDER BY f.id LIMIT :step
""")
REMOVE_FILES = text("""
WITH removed AS (DELETE FROM file_records WHERE id = ANY(:file_ids) RETURNING id)
UPDATE erasures SET erased = erased || jsonb_build_object(
    'files', coalesce((erased ->> 'files')::bigint, 0) + (SELECT count(*) FROM removed)
)
WHERE id = :id
""")
QUOTED = text("""
SELECT inbox.id, inbox.platform, inbox.platform_event_id
FROM inbox JOIN user_platform_links AS l USING (platform, platform_user_id) JOIN erasures AS e ON e.user_id = l.user_id
WHERE e.id = :id AND e.finished_at IS NULL AND NOT inbox.is_direct AND inbox.content <> :deleted
ORDER BY inbox.id LIMIT :step
""")
# What the agent received with the question of somebody else alone.
OVERHEARD = text("""
SELECT inbox.id, inbox.platform, quoted ->> 'message_id' AS platform_event_id
FROM erasures AS e JOIN user_platform_links AS l ON l.user_id = e.user_id
JOIN inbox ON inbox.platform = l.platform AND (platform_context -> 'earlier') IS NOT NULL
    AND (platform_context -> 'earlier') @> jsonb_build_array(jsonb_build_object('author_id', l.platform_user_id))
CROSS JOIN jsonb_array_elements(platform_context -> 'earlier') AS quoted
WHERE e.id = :id AND e.finished_at IS NULL AND quoted ->> 'author_id' = l.platform_user_id
  AND quoted ->> 'message_id' IS NOT NULL
ORDER BY inbox.id LIMIT :step
""")
ERASE = text("SELECT parley_erase_person(:id)")

log = get_logger()


@dataclass(frozen=True, slots=True)
class Erased:
    """A finished erasure, with the numbers of rows and files by kind."""

    id: int
    user_id: int
    requested_at: datetime
    finished_at: datetime
    counts: dict[str, int]

    def to_receipt(self, secrets: Secrets) -> str:
        """Return the signed receipt."""
        content: dict[str, Any] = {
            "erasure": self.id,
            "user": self.user_id,
            "requested_at": self.requested_at.isoformat(),
            "finished_at": self.finished_at.isoformat(),
            "erased": self.counts,
        }
        return sign_receipt(secrets, content)


async def request_erasure(session: AsyncSession, user_id: int) -> int | None:
    """Store the wish to erase this person and return its id; None if there is no such person and never was."""
    return (await session.execute(REQUEST, {"user_id": user_id})).scalar_one_or_none()


async def find_erasure(session: AsyncSession, user_id: int) -> int | None:
    """Return the id of this person's erasure, finished or not; None if it was never wanted."""
    return (await session.execute(FIND, {"user_id": user_id})).scalar_one_or_none()


async def erase(database: Database, storage: Storage, erasure_id: int) -> Erased:
    """Erase the person, or go on with it; raises `Unavailable` when storage or database can't be reached."""
    is_erased = False
    while not is_erased:
        await _erase_files(database, storage, erasure_id)
        await _redact_quotes(database, storage, erasure_id)
        async with database.long_transaction() as session:
            # False when another file has come in meanwhile.
            is_erased = bool((await session.execute(ERASE, {"id": erasure_id})).scalar_one())
    async with database.transaction() as session:
        row = (await session.execute(SHOW, {"id": erasure_id})).one()
    log.info("person_erased", erasure=row.id, **row.erased)
    return Erased(row.id, row.user_id, requested_at=row.created_at, finished_at=row.finished_at, counts=row.erased)


async def finish_erasures(database: Database, storage: Storage) -> int:
    """Go on with all erasures that a crash or an unreachable storage has interrupted; return how many were finished."""
    async with database.transaction() as session:
        open_ids = (await session.execute(OPEN)).scalars().all()
    count = 0
    for erasure_id in open_ids:
        try:
            await erase(database, storage, erasure_id)
            count += 1
        except Unavailable as error:
            log.warning("erasure_waits", erasure=erasure_id, cause=str(error))
    return count


async def _erase_files(database: Database, storage: Storage, erasure_id: int) -> None:
    while True:
        async with database.transaction() as session:
            files = (await session.execute(FILES, {"id": erasure_id, "step": STEP})).all()
        if not files:
            return
        for file in files:
            await storage.delete(file.minio_key)
        async with database.transaction() as session:
            await session.execute(REMOVE_FILES, {"id": erasure_id, "file_ids": [file.id for file in files]})


async def _redact_quotes(database: Database, storage: Storage, erasure_id: int) -> None:
    # Messages of others repeat what was said before them in the channel.
    for statement in (QUOTED, OVERHEARD):
        parameters = {"id": erasure_id, "step": STEP, "deleted": DELETED}
        while rows := await _list_quotes(database, statement, parameters):
            for platform in {row.platform for row in rows}:
                ids = {row.platform_event_id for row in rows if row.platform == platform}
                await redact(database, storage, platform=platform, message_ids=ids, is_author_gone=True)


async def _list_quotes(database: Database, statement: TextClause, parameters: dict[str, Any]) -> Sequence[Any]:
    async with database.long_transaction() as session:
        return (await session.execute(statement, parameters)).all()
