"""The files of a message: recorded with the turn, stored before any tool runs, named to the model by id."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sqlalchemy import insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from agent.prompts import prompts
from shared.db.database import Database, DatabaseLost
from shared.db.driver import Session
from shared.errors import NotFound, ToolError, Unavailable
from shared.files.attachments import Stored, store_attachment
from shared.files.filenames import clean_filename, new_key
from shared.files.storage import Storage, used_bytes
from shared.http.client import GuardedClient
from shared.log import get_logger
from shared.messages import Attachment
from shared.models import FileRecord

log = get_logger()

MARK = text("UPDATE file_records SET status = :status, mime_type = :mime_type, size_bytes = :size WHERE id = :id")

DROP = text("""
UPDATE file_records SET status = 'failed', size_bytes = 0 WHERE turn_id = :turn_id AND status = 'pending' RETURNING id
""")
NEXT_IDS = text("SELECT nextval('file_records_id_seq') AS id FROM generate_series(1, :count)")


@runtime_checkable
class HoldsCredentials(Protocol):
    """A sender whose platform protects its files with a secret."""

    async def find_headers(self, url: str, credential: str) -> Mapping[str, str]:
        """Return the headers that open this URL; none when it is not the platform's."""
        ...


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A recorded file whose bytes are still to be stored."""

    file_id: int
    key: str
    attachment: Attachment


async def draw_files(session: Session, user_id: int, attachments: Sequence[Attachment]) -> list[PendingFile]:
    """Give every attachment an id, before its turn is recorded."""
    if not attachments:
        return []
    ids = [row.id for row in (await session.execute(NEXT_IDS, {"count": len(attachments)})).all()]
    return [
        PendingFile(file_id, each.storage_key or new_key(str(user_id), each.filename), each)
        for file_id, each in zip(ids, attachments, strict=True)
    ]


async def record_files(
    session: AsyncSession, files: Sequence[PendingFile], *, user_id: int, conversation_id: int, turn_id: int
) -> None:
    """Record them as pending files of the user."""
    rows = [
        {
            "id": each.file_id,
            "user_id": user_id,
            "conversation_id": conversation_id,
            "turn_id": turn_id,
            "filename": clean_filename(each.attachment.filename),
            "minio_key": each.key,
            "mime_type": each.attachment.mime_type,
            "size_bytes": each.attachment.size_bytes or 0,
        }
        for each in files
    ]
    if rows:
        await session.execute(insert(FileRecord), rows)


async def list_pending(session: AsyncSession, turn_id: int, attachments: Sequence[Attachment]) -> list[PendingFile]:
    """Return the files of a turn that an earlier attempt recorded but did not store."""
    if not attachments:
        return []
    query = (
        select(FileRecord.id, FileRecord.minio_key, FileRecord.status)
        .where(FileRecord.turn_id == turn_id)
        .order_by(FileRecord.id)
        .limit(len(attachments))
    )
    rows = (await session.execute(query)).all()
    pairs = zip(rows, attachments, strict=False)
    return [PendingFile(row.id, row.minio_key, each) for row, each in pairs if row.status == "pending"]


def with_file_lines(content: str, files: Sequence[PendingFile]) -> str:
    """Return the message text with one line per file: its id, size and type, and how to read it."""
    if not files:
        return content
    lines = [
        f"- {clean_filename(each.attachment.filename)} (file_id {each.file_id}, {_describe(each.attachment)})"
        for each in files
    ]
    return "\n".join([content, "", "[Attached files:]", *lines, prompts().turn.files_hint]).strip()


@dataclass(frozen=True, slots=True)
class AttachmentStore:
    """Brings the bytes of attachments into storage; `senders` may hold the credentials for their URLs, by adapter."""

    database: Database
    storage: Storage
    http: GuardedClient
    senders: Mapping[str, object]

    async def store(self, user_id: int, files: Sequence[PendingFile]) -> None:
        """Store each file and mark it stored or failed; the failure of one does not affect the others."""
        # One after the other: each must know the quota that the one before has left.
        for each in files:
            await self._store(user_id, each)

    async def _store(self, user_id: int, file: PendingFile) -> None:
        stored: Stored | None = None
        async with self.database.transaction() as session:
            room = self.storage.quota_bytes - await used_bytes(session, user_id)
        try:
            if room <= 0:
                raise ToolError("The quota for files is used up.")
            headers = await self._find_headers(file.attachment)
            stored = await store_attachment(
                self.storage, self.http, file.attachment, key=file.key, headers=headers, max_bytes=room
            )
        except DatabaseLost:
            raise
        except (ToolError, Unavailable) as error:
            log.warning("attachment_failed", file=file.file_id, cause=str(error))
            await _remove(self.storage, file)
        row = {
            "id": file.file_id,
            "status": "stored" if stored else "failed",
            "mime_type": stored.mime_type if stored else file.attachment.mime_type,
            "size": stored.size_bytes if stored else 0,
        }
        async with self.database.transaction() as session:
            await session.execute(MARK, row)

    async def _find_headers(self, attachment: Attachment) -> Mapping[str, str]:
        """Return the headers without which the platform does not give the file."""
        adapter = (attachment.credential or "").partition(":")[0]
        sender = self.senders.get(adapter)
        if attachment.url is None or not isinstance(sender, HoldsCredentials):
            return {}
        return await sender.find_headers(attachment.url, str(attachment.credential))


async def drop_pending(database: Database, storage: Storage, *, turn_id: int, files: Sequence[PendingFile]) -> None:
    """Remove the files of a turn that ended before they were stored: they count towards nobody's quota."""
    if not files:
        return
    async with database.transaction() as session:
        dropped = {row.id for row in (await session.execute(DROP, {"turn_id": turn_id})).all()}
    for each in files:
        if each.file_id in dropped:
            await _remove(storage, each)


async def _remove(storage: Storage, file: PendingFile) -> None:
    # Bytes that an adapter has stored already take up space, whatever becomes of the file.
    if file.attachment.storage_key is not None:
        try:
            await storage.delete(file.attachment.storage_key)
        except (NotFound, Unavailable) as error:
            log.warning("attachment_left_behind", file=file.file_id, cause=str(error))


def _describe(attachment: Attachment) -> str:
    if attachment.size_bytes is None:
        return attachment.mime_type
    size = attachment.size_bytes
    shown = (
        f"{size} bytes" if size < 1024 else f"{size / 1024:.0f} KB" if size < 1024**2 else f"{size / 1024**2:.1f} MB"
    )
    return f"{shown}, {attachment.mime_type}"
