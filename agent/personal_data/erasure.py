"""Erases a person: first the content of their files, then quotes of them, then all rows in one transaction.

The wish is stored before anything is erased. Each step can be repeated: after a crash a worker goes on, and only what
storage no longer holds loses its row.
"""

from datetime import datetime
from typing import Any

from msgspec import Struct

from agent.memory.deletion import DELETED
from agent.queue.redaction import redact
from shared.db.driver import Session
from shared.db.single import LongWork
from shared.db.statements import load_statements
from shared.errors import Unavailable
from shared.files.stores.store import Eraser
from shared.log import get_logger
from shared.receipts import sign_receipt
from shared.settings import Secrets

statements = load_statements(__file__)

STEP = 100


log = get_logger()


class Erased(Struct, frozen=True):
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


async def request_erasure(session: Session, user_id: int) -> int | None:
    """Store the wish to erase this person and return its id; None if there is no such person and never was."""
    erasure_id: int | None = (await session.execute(statements.request_erasure, {"user_id": user_id})).scalar_one()
    return erasure_id


async def find_erasure(session: Session, user_id: int) -> int | None:
    """Return the id of this person's erasure, finished or not; None if it was never wanted."""
    row = (await session.execute(statements.find_erasure, {"user_id": user_id})).one_or_none()
    return None if row is None else int(row.id)


async def erase(database: LongWork, storage: Eraser, erasure_id: int) -> Erased:
    """Erase the person, or go on with it; raises `Unavailable` when storage or database can't be reached."""
    is_erased = False
    while not is_erased:
        await _erase_files(database, storage, erasure_id)
        await _redact_quotes(database, storage, erasure_id)
        async with database.long_transaction() as session:
            # False when something of the person has come in meanwhile, another file for instance.
            is_erased = bool((await session.execute(statements.erase_person, {"id": erasure_id})).scalar_one())
    async with database.transaction() as session:
        row = (await session.execute(statements.read_erasure, {"id": erasure_id})).one()
    log.info("person_erased", erasure=row.id, **row.erased)
    return Erased(row.id, row.user_id, requested_at=row.created_at, finished_at=row.finished_at, counts=row.erased)


async def finish_erasures(database: LongWork, storage: Eraser) -> int:
    """Go on with all erasures that a crash or an unreachable storage has interrupted; return how many were finished."""
    async with database.transaction() as session:
        rows = (await session.execute(statements.list_open_erasures)).all()
    count = 0
    for row in rows:
        try:
            await erase(database, storage, row.id)
            count += 1
        except Unavailable as error:
            log.warning("erasure_waits", erasure=row.id, cause=str(error))
    return count


async def _erase_files(database: LongWork, storage: Eraser, erasure_id: int) -> None:
    while True:
        async with database.transaction() as session:
            files = (await session.execute(statements.list_files_to_erase, {"id": erasure_id, "step": STEP})).all()
        if not files:
            return
        for file in files:
            await storage.delete(file.minio_key)
        async with database.transaction() as session:
            await session.execute(statements.erase_files, {"id": erasure_id, "file_ids": [file.id for file in files]})


async def _redact_quotes(database: LongWork, storage: Eraser, erasure_id: int) -> None:
    # Messages of others repeat what was said before them in the channel.
    for statement in (statements.list_own_messages, statements.list_overheard_messages):
        parameters = {"id": erasure_id, "step": STEP, "deleted": DELETED}
        while True:
            async with database.long_transaction() as session:
                rows = (await session.execute(statement, parameters)).all()
            if not rows:
                break
            for platform in {row.platform for row in rows}:
                ids = {row.platform_event_id for row in rows if row.platform == platform}
                await redact(database, storage, platform=platform, message_ids=ids, is_author_gone=True)
