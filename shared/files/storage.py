"""Files: bytes in a folder or an S3 bucket, rows in Postgres, links of our own that are signed and expire."""

import hashlib
import hmac
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlencode

from sqlalchemy import BigInteger, ColumnElement, TextClause, bindparam, delete, func, or_, select, text, true, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.clock import Clock, SystemClock
from shared.db.database import Database
from shared.errors import NotFound, ToolError, Unavailable
from shared.files.file_types import HEAD_BYTES, detect_type
from shared.files.filenames import clean_filename, new_key
from shared.files.folder import FolderStore
from shared.models.file import FileRecord
from shared.settings import Secrets, Settings

MEGABYTE = 1024 * 1024
QUOTA_BYTES = 500 * MEGABYTE
LINK_SECONDS = 24 * 3600
LISTED_FILES = 100
MAX_ID = 2**63 - 1
# A file that is pending for longer was lost in a crash and takes no room.
PENDING_SECONDS = 3600


# As with memories: what came in private is seen in private alone, what came on a server there and in private.
SEEN_HERE = """EXISTS (
    SELECT FROM conversations AS here LEFT JOIN conversations AS origin ON origin.id = file_records.conversation_id
    WHERE here.id = :conversation_id AND (here.is_direct OR (
        NOT origin.is_direct AND origin.platform = here.platform
        AND coalesce(origin.platform_server_id, origin.platform_channel_id)
            = coalesce(here.platform_server_id, here.platform_channel_id)
    ))
)"""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of a user, with a link that expires."""

    file_id: int
    filename: str
    mime_type: str
    size_bytes: int
    url: str


class Store(Protocol):
    """Where bytes are kept. A store that can't be used raises `Unavailable`, a missing key `NotFound`."""

    async def put(self, key: str, chunks: AsyncIterator[bytes], mime_type: str) -> int:
        """Store what the chunks give and return its size; nothing is kept when they fail."""
        ...

    def get(self, key: str) -> AsyncGenerator[bytes]:
        """Give the file in chunks."""
        ...

    async def size(self, key: str) -> int:
        """Return the size of the file."""
        ...

    async def delete(self, key: str) -> None:
        """Remove the file, if it is there."""
        ...

    async def aclose(self) -> None:
        """Close what is open."""
        ...


class Storage:
    """The house's files by key, and the links to them. What one person may see is in `FilesOfUser`."""

    def __init__(
        self,
        store: Store,
        base_url: str,
        secret_keys: tuple[str, ...],
        *,
        clock: Clock | None = None,
        max_file_bytes: int = 40 * MEGABYTE,
        quota_bytes: int = QUOTA_BYTES,
    ) -> None:
        self._store = store
        self._base_url = base_url.rstrip("/")
        # A key of its own for links, so that the same secret can't be tricked into signing for another use.
        self._keys = tuple(hmac.digest(key.encode(), b"parley file link", "sha256") for key in secret_keys)
        self._clock = clock or SystemClock()
        self.max_file_bytes = max_file_bytes
        self.quota_bytes = quota_bytes

    def of_user(
        self, database: Database, user_id: int, conversation_id: int | None, turn_id: int | None = None
    ) -> "FilesOfUser":
        """Return the files of one user, seen from one conversation."""
        return FilesOfUser(self, database, user_id, conversation_id, turn_id)

    async def put(
        self, key: str, content: bytes | AsyncIterator[bytes], mime_type: str, *, max_bytes: int | None = None
    ) -> int:
        """Store a file and return its size; past `max_bytes` raises `ToolError` and keeps nothing."""
        limit = self.max_file_bytes if max_bytes is None else max_bytes
        chunks = _one(content) if isinstance(content, bytes) else content
        return await self._store.put(key, _bounded(chunks, limit), mime_type)

    def get(self, key: str) -> AsyncGenerator[bytes]:
        """Give a file in chunks; raises `NotFound` at the first when there is none."""
        return self._store.get(key)

    async def head(self, key: str) -> bytes:
        """Return the first bytes of a file, enough to tell its type."""
        async with aclosing(self._store.get(key)) as chunks:
            return (await anext(chunks, b""))[:HEAD_BYTES]

    async def size(self, key: str) -> int:
        """Return the size of a file; raises `NotFound` when there is none."""
        return await self._store.size(key)

    async def delete(self, key: str) -> None:
        """Remove a file, if it is there."""
        await self._store.delete(key)

    async def open(self, database: Database, file_id: int) -> tuple[StoredFile, AsyncGenerator[bytes]]:
        """Return a file of anybody, for a link that `check` has accepted; raises `NotFound`."""
        async with database.transaction() as session:
            record = await session.get(FileRecord, file_id) if 0 < file_id <= MAX_ID else None
        if record is None or record.status != "stored":
            raise NotFound(what="file")
        return self.describe(record), self._store.get(record.minio_key)

    def describe(self, record: FileRecord) -> StoredFile:
        """Return what a person may know of a file, with a fresh link."""
        return StoredFile(record.id, record.filename, record.mime_type, record.size_bytes, self.sign(record.id))

    def sign(self, file_id: int) -> str:
        """Return a link to a file that works for a day."""
        until = int(self._clock.now().timestamp()) + LINK_SECONDS
        query = urlencode({"until": until, "signature": _signature(self._keys[0], file_id, until)})
        return f"{self._base_url}/files/{file_id}?{query}"

    def check(self, file_id: int, query: Mapping[str, str]) -> bool:
        """Tell whether these are the query parameters of a link to this file that still works."""
        until, given = query.get("until", ""), query.get("signature", "")
        if not (until.isascii() and until.isdecimal() and len(until) <= 12 and given.isascii()):
            return False
        if int(until) <= self._clock.now().timestamp():
            return False
        return any(hmac.compare_digest(_signature(key, file_id, int(until)), given) for key in self._keys)

    async def aclose(self) -> None:
        """Close what the store holds open."""
        await self._store.aclose()


def open_storage(settings: Settings, secrets: Secrets, clock: Clock | None = None) -> Storage:
    """Return the storage that the settings ask for, without reaching for it: one that is down stops no start."""
    store: Store
    if settings.s3_endpoint:
        # Imported here: the client takes 0.2 s, and most houses keep their files in a folder.
        from shared.files.s3 import S3Store

        store = S3Store(settings)
    else:
        store = FolderStore(settings.parley_home / "files")
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    base_url = settings.public_url or f"http://{host}:{settings.port}"
    return Storage(store, base_url, secrets.secret_keys, clock=clock, max_file_bytes=settings.max_body_mb * MEGABYTE)


async def used_bytes(session: AsyncSession, user_id: int) -> int:
    """Return how much room a user's files take, those on their way included."""
    recent = func.now() - func.make_interval(0, 0, 0, 0, 0, 0, PENDING_SECONDS)
    taken = select(func.coalesce(func.sum(FileRecord.size_bytes), 0)).where(
        FileRecord.user_id == user_id,
        or_(FileRecord.status == "stored", (FileRecord.status == "pending") & (FileRecord.created_at > recent)),
    )
    return int((await session.execute(taken)).scalar_one())


class FilesOfUser:
    """The files of one user, as far as one conversation may see them; without one, all.

    Another person's id is answered exactly as a missing one: `NotFound`.
    """

    def __init__(
        self, storage: Storage, database: Database, user_id: int, conversation_id: int | None, turn_id: int | None
    ) -> None:
        self._storage = storage
        self._database = database
        self._user_id = user_id
        self._conversation_id = conversation_id
        self._turn_id = turn_id

    async def create(self, filename: str, content: bytes, mime_type: str = "") -> StoredFile:
        """Store a new file; its type is found from the content, `mime_type` only tells kinds of text apart.

        Raises `ToolError` when the file or all files together are too large.
        """
        if len(content) > self._storage.max_file_bytes:
            raise ToolError(f"A file may have up to {self._storage.max_file_bytes // MEGABYTE} MB.")
        record = FileRecord(
            user_id=self._user_id,
            conversation_id=self._conversation_id,
            turn_id=self._turn_id,
            filename=clean_filename(filename),
            minio_key=new_key(str(self._user_id), filename),
            mime_type=detect_type(content, mime_type),
            size_bytes=len(content),
            status="pending",
        )
        async with self._database.transaction() as session:
            await self._reserve(session, len(content))
            session.add(record)
        try:
            await self._storage.put(record.minio_key, content, record.mime_type)
        except (ToolError, Unavailable):
            await self._mark(record.id, "failed")
            raise
        await self._mark(record.id, "stored")
        return self._storage.describe(record)

    async def read(self, file_id: int) -> tuple[StoredFile, bytes]:
        """Return a file with its content."""
        record = await self._find(file_id)
        content = b"".join([chunk async for chunk in self._storage.get(record.minio_key)])
        return self._storage.describe(record), content

    async def list(self) -> list[StoredFile]:
        """Return the newest files, up to a hundred."""
        statement = (
            select(FileRecord)
            .where(FileRecord.user_id == self._user_id, FileRecord.status == "stored", self._is_seen_here())
            .order_by(FileRecord.id.desc())
            .limit(LISTED_FILES)
        )
        async with self._database.transaction() as session:
            return [self._storage.describe(record) for record in await session.scalars(statement)]

    async def link(self, file_id: int) -> StoredFile:
        """Return a file with a fresh link."""
        return self._storage.describe(await self._find(file_id))

    async def delete(self, file_id: int) -> StoredFile:
        """Remove a file for good and return what it was; bytes first: when that fails the row is there to try again."""
        record = await self._find(file_id, is_any_status=True)
        await self._storage.delete(record.minio_key)
        async with self._database.transaction() as session:
            await session.execute(delete(FileRecord).where(FileRecord.id == record.id))
        return self._storage.describe(record)

    async def _reserve(self, session: AsyncSession, size_bytes: int) -> None:
        # Two files at once must not both see the last free bytes.
        await session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"files {self._user_id}", 0))))
        if await used_bytes(session, self._user_id) + size_bytes > self._storage.quota_bytes:
            quota = self._storage.quota_bytes // MEGABYTE
            raise ToolError(f"No room: all files of one person may take {quota} MB. Deleting old files makes room.")

    async def _mark(self, file_id: int, status: str) -> None:
        async with self._database.transaction() as session:
            await session.execute(update(FileRecord).where(FileRecord.id == file_id).values(status=status))

    def _is_seen_here(self) -> ColumnElement[bool] | TextClause:
        if self._conversation_id is None:
            return true()
        return text(SEEN_HERE).bindparams(bindparam("conversation_id", self._conversation_id, BigInteger))

    async def _find(self, file_id: int, *, is_any_status: bool = False) -> FileRecord:
        if not 0 < file_id <= MAX_ID:
            raise NotFound(what="file")
        async with self._database.transaction() as session:
            record = await session.get(FileRecord, file_id)
            is_seen = await session.scalar(select(FileRecord.id).where(FileRecord.id == file_id, self._is_seen_here()))
        if record is None or record.user_id != self._user_id:
            raise NotFound(what="file")
        if is_seen is None:
            raise ToolError("This file was sent in private, or elsewhere: ask for it in a direct message.")
        if record.status != "stored" and not is_any_status:
            raise ToolError(f"The file {record.filename} has not arrived; it has to be sent again.")
        return record


def _signature(key: bytes, file_id: int, until: int) -> str:
    return hmac.new(key, f"{file_id}.{until}".encode(), hashlib.sha256).hexdigest()


async def _one(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def _bounded(chunks: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise ToolError(f"The file is larger than {limit // MEGABYTE} MB.")
        yield chunk
