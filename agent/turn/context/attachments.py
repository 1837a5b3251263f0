"""The attachments of a message: recorded with the turn, stored before any tool runs, listed by id in the prompt."""

import json
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from agent.journal.files import PendingFile
from agent.journal.steps import Step
from agent.prompts import prompts
from agent.turn.context.images import find_named
from shared.clock import Clock
from shared.db.database import Database, DatabaseLost
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import NotFound, ToolError, Unavailable
from shared.files.attachments import FETCH_SECONDS, FetchLimits, Stored, store_attachment
from shared.files.filenames import clean_filename, new_key
from shared.files.quota import read_quota
from shared.files.storage import Storage
from shared.http.client import GuardedClient
from shared.log import get_logger
from shared.messages import Attachment
from shared.sandbox.programs import REMEDY
from shared.tasks import FairPool

log = get_logger()

statements = load_statements(__file__)


@runtime_checkable
class HoldsCredentials(Protocol):
    """A sender that holds the credentials for downloading files of its platform."""

    async def find_headers(self, url: str, credential: str) -> Mapping[str, str]:
        """Return the HTTP headers for downloading this URL; empty when the URL does not belong to the platform."""
        ...


class FailedFile(Struct, frozen=True):
    """A file of a message that could not be fetched or stored, and why."""

    name: str
    reason: str


async def draw_files(session: Session, user_id: int, attachments: Sequence[Attachment]) -> list[PendingFile]:
    """Allocate an id and a storage key for every attachment, before the turn is recorded."""
    if not attachments:
        return []
    ids = [row.id for row in (await session.execute(statements.draw_file_ids, {"count": len(attachments)})).all()]
    return [
        PendingFile(file_id, attachment.storage_key or new_key(str(user_id), attachment.filename), attachment)
        for file_id, attachment in zip(ids, attachments, strict=True)
    ]


async def record_files(
    session: Session, files: Sequence[PendingFile], *, user_id: int, conversation_id: int, turn_id: int
) -> None:
    """Insert the rows of the files, with status pending."""
    rows = [
        {
            "id": file.file_id,
            "user_id": user_id,
            "conversation_id": conversation_id,
            "turn_id": turn_id,
            "filename": clean_filename(file.attachment.filename),
            "minio_key": file.key,
            "mime_type": file.attachment.mime_type,
            "size_bytes": file.attachment.size_bytes or 0,
            "author": file.attachment.author,
        }
        for file in files
    ]
    if rows:
        await session.execute(statements.add_files, {"files": json.dumps(rows)})


async def list_pending(session: Session, turn_id: int, attachments: Sequence[Attachment]) -> list[PendingFile]:
    """Return the files of a turn that an earlier attempt has recorded but not stored, failed ones included."""
    if not attachments:
        return []
    parameters = {"turn_id": turn_id, "count": len(attachments)}
    rows = (await session.execute(statements.list_stored_files, parameters)).all()
    pairs = zip(rows, attachments, strict=False)
    return [
        PendingFile(row.id, row.minio_key, attachment, has_failed=row.status == "failed")
        for row, attachment in pairs
        if row.status != "stored"
    ]


def with_failed_files(content: str, failed: Sequence[FailedFile]) -> str:
    """Append to the message text, for the model, which files are missing and why."""
    if not failed:
        return content
    listing = "\n".join(f"- {file.name}: {file.reason}" for file in failed)
    return f"{content}\n\n{prompts().turn.files_missing}\n{listing}"


def with_failed_notice(text_: str, failed: Sequence[FailedFile]) -> str:
    """Append to an answer, for the person, which files are missing."""
    if not failed:
        return text_
    names = ", ".join(file.name for file in failed)
    return f"{text_}\n\n{prompts().turn.files_missing_notice.format(names=names)}".strip()


def with_unopened_notice(answer: str, steps: Sequence[Step], fault: str | None) -> str:
    """Append to an answer, for the person, that a file was not opened because of this fault of the sandbox, if any.

    A tool has said so, or the message has images, and none is opened then.
    """
    if fault is None:
        return answer
    results = [step.value for step in steps if step.role == "tool_result"]
    is_met = any(isinstance(result, dict) and result.get("fault") == fault for result in results)
    if not (is_met or find_named([(0, steps[0])])):
        return answer
    return f"{answer}\n\n{prompts().turn.files_unopened_notice.format(fault=fault, remedy=REMEDY)}".strip()


class AttachmentStore(Struct, frozen=True):
    """Downloads attachments and stores them; `senders`, by adapter, may provide credentials for their URLs.

    `downloads` bounds how many messages' attachments are fetched at once.
    """

    database: Database
    storage: Storage
    http: GuardedClient
    senders: Mapping[str, object]
    downloads: FairPool
    clock: Clock

    async def store(self, user_id: int, files: Sequence[PendingFile]) -> list[FailedFile]:
        """Store each file and mark it stored or failed; return those that failed. Raises `DatabaseLost`.

        Fetching all of them takes at most `FETCH_SECONDS`, after a wait for other messages' files.
        """
        if all(file.attachment.storage_key is not None for file in files):
            return await self._store_all(user_id, files)
        async with self.downloads.enter(user_id):
            return await self._store_all(user_id, files)

    async def _store_all(self, user_id: int, files: Sequence[PendingFile]) -> list[FailedFile]:
        failed: list[FailedFile] = []
        ends = self.clock.monotonic() + FETCH_SECONDS
        # Sequentially, because each file uses up a part of the user's quota.
        for file in files:
            reason: str | None = prompts().turn.file_missing
            if not file.has_failed:
                reason = await self._store(user_id, file, seconds=max(0.0, ends - self.clock.monotonic()))
            if reason is not None:
                failed.append(FailedFile(clean_filename(file.attachment.filename), reason))
        return failed

    async def _store(self, user_id: int, file: PendingFile, *, seconds: float) -> str | None:
        # Returns why it could not be stored; None if it is stored.
        upload: Stored | None = None
        reason: str | None = None
        async with self.database.transaction() as session:
            quota = await read_quota(session, user_id, self.storage.quotas)
        try:
            if quota.free <= 0:
                raise ToolError("The quota for files is used up.")
            headers: Mapping[str, str] = {}
            sender = self.senders.get((file.attachment.credential or "").partition(":")[0])
            # Some platforms require HTTP headers for downloading a file.
            if file.attachment.url is not None and isinstance(sender, HoldsCredentials):
                headers = await sender.find_headers(file.attachment.url, str(file.attachment.credential))
            upload = await store_attachment(
                self.storage,
                self.http,
                file.attachment,
                key=file.key,
                headers=headers,
                limits=FetchLimits(quota.free, seconds),
            )
        except DatabaseLost:
            raise
        except (ToolError, Unavailable) as error:
            reason = str(error)
            log.warning("attachment_failed", file=file.file_id, cause=reason)
            await _remove(self.storage, file)
        row = {
            "id": file.file_id,
            "status": "stored" if upload else "failed",
            "mime_type": upload.mime_type if upload else file.attachment.mime_type,
            "size": upload.size_bytes if upload else 0,
            "sha256": upload.sha256 if upload else None,
        }
        async with self.database.transaction() as session:
            await session.execute(statements.store_file, row)
        return reason


async def drop_pending(database: Database, storage: Storage, *, turn_id: int, files: Sequence[PendingFile]) -> None:
    """Mark the files that a finished turn has not stored as failed, and free their storage and quota."""
    if not files:
        return
    async with database.transaction() as session:
        dropped = {row.id for row in (await session.execute(statements.drop_pending_files, {"turn_id": turn_id})).all()}
    for file in files:
        if file.file_id in dropped:
            await _remove(storage, file)


async def _remove(storage: Storage, file: PendingFile) -> None:
    # The adapter may have stored the content already; without this it would keep using storage.
    if file.attachment.storage_key is not None:
        try:
            await storage.delete(file.attachment.storage_key)
        except (NotFound, Unavailable) as error:
            log.warning("attachment_left_behind", file=file.file_id, cause=str(error))
