"""Files of users: content in a folder or an S3 bucket, rows in Postgres, and signed links that expire."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import PurePosixPath
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from shared.clock import Clock
from shared.db.database import Database
from shared.db.statements import load_statements
from shared.errors import FileDamaged, FileLost, NotFound, ToolError, Unavailable
from shared.files.file_types import HEAD_BYTES, detect_type
from shared.files.filenames import clean_filename, new_key
from shared.files.quota import GUEST, QUOTAS, read_quota
from shared.files.stored_file import FileLinks, StoredContent, StoredFile, to_author, to_base_url, to_content, to_label
from shared.files.stores import open_store
from shared.files.stores.content import CHUNK_BYTES, MEGABYTE, Content, hash_chunks, iterate, put
from shared.files.stores.store import Store
from shared.messages import Author
from shared.sandbox.pool import Sandbox
from shared.sandbox.programs import Finished, Program
from shared.settings import Secrets, Settings
from shared.text import MAX_ID

if TYPE_CHECKING:
    from shared.models import FileRecord

statements = load_statements(__file__)

MAX_LISTED = 100
# What is read is held back until it is compared: up to this in memory, the rest on disk.
MEMORY_BYTES = 8 * MEGABYTE


class Storage(FileLinks):
    """All files by key, and signed links to them. `FilesOfUser` has those that one user may see."""

    def __init__(
        self,
        store: Store,
        base_url: str,
        secret_keys: tuple[str, ...],
        *,
        clock: Clock | None = None,
        max_file_bytes: int = 40 * MEGABYTE,
        quotas: Mapping[str, int] = QUOTAS,
    ) -> None:
        """Store up to `max_file_bytes` in a file, and for each person the bytes that `quotas` has for their level."""
        super().__init__(base_url, secret_keys, clock)
        self._store = store
        self.sandbox = Sandbox()
        self.max_file_bytes = max_file_bytes
        self.quotas = quotas

    def of_user(
        self,
        database: Database,
        user_id: int,
        conversation_id: int | None,
        turn_id: int | None = None,
        *,
        holds_secret: Callable[[bytes], bool] | None = None,
        author: Author = "person",
    ) -> "FilesOfUser":
        """Return the files of one user that are visible in one conversation; none is made that holds a secret.

        `author` says who may have chosen the names of those that are made.
        """
        files = FilesOfUser(self, database, user_id, conversation_id=conversation_id, turn_id=turn_id)
        files.author = author
        files.holds_secret = holds_secret
        return files

    async def put(
        self, key: str, content: bytes | AsyncIterator[bytes], mime_type: str, *, max_bytes: int | None = None
    ) -> Content:
        """Store a file and return its size and checksum; raises `ToolError` when it is larger than `max_bytes`."""
        limit = self.max_file_bytes if max_bytes is None else max_bytes
        chunks = iterate([content]) if isinstance(content, bytes) else content
        return await put(self._store, key, chunks, mime_type=mime_type, limit=limit)

    def get(self, key: str) -> AsyncGenerator[bytes]:
        """Yield a file in chunks; the first iteration raises `NotFound` when it does not exist."""
        return self._store.get(key)

    async def read(self, content: StoredContent) -> AsyncGenerator[bytes]:
        """Yield a stored file in chunks, none before the whole has been compared with its checksum.

        The first iteration raises `FileLost` or `FileDamaged` when the store has it no more, or something else.
        """
        with SpooledTemporaryFile(max_size=MEMORY_BYTES) as spool:
            try:
                sha256 = await self._copy(content.key, spool)
            except NotFound as error:
                raise FileLost(filename=content.filename) from error
            if content.sha256 not in (None, sha256):
                raise FileDamaged(filename=content.filename)
            spool.seek(0)
            while chunk := await asyncio.to_thread(spool.read, CHUNK_BYTES):
                yield chunk

    async def _copy(self, key: str, file: SpooledTemporaryFile[bytes]) -> str:
        sha256 = hashlib.sha256()
        async with aclosing(self._store.get(key)) as chunks:
            async for chunk in hash_chunks(chunks, sha256):
                await asyncio.to_thread(file.write, chunk)
        return sha256.hexdigest()

    async def head(self, key: str) -> bytes:
        """Return the first bytes of a file, enough to detect its type."""
        async with aclosing(self._store.get(key)) as chunks:
            return (await anext(chunks, b""))[:HEAD_BYTES]

    async def size(self, key: str) -> int:
        """Return the size in bytes; raises `NotFound` when the file does not exist."""
        return await self._store.size(key)

    async def delete(self, key: str) -> None:
        """Delete a file if it exists."""
        await self._store.delete(key)

    async def open(self, database: Database, file_id: int) -> tuple[StoredFile, AsyncGenerator[bytes]]:
        """Return a file of any user, for a link that `check` has accepted; raises `NotFound`, and what `read` does."""
        if not 0 < file_id <= MAX_ID:
            raise NotFound(what="file")
        async with database.statement() as session:
            record = (await session.execute(statements.find_file, {"id": file_id})).one_or_none()
        if record is None or record.status != "stored":
            raise NotFound(what="file")
        return self.describe(record), self.read(to_content(record))

    def describe(self, record: "FileRecord") -> StoredFile:
        """Return the public fields of a file, with a new link."""
        return StoredFile(
            record.id,
            record.filename,
            record.mime_type,
            size_bytes=record.size_bytes,
            url=self.sign(record.id),
            author=to_author(record.author),
        )

    async def aclose(self) -> None:
        """Close the store."""
        await self._store.aclose()


def open_storage(settings: Settings, secrets: Secrets, clock: Clock | None = None) -> Storage:
    """Return the configured storage without connecting to it, so that the program starts also when it is down."""
    storage = Storage(
        open_store(settings),
        to_base_url(settings),
        secrets.secret_keys,
        clock=clock,
        max_file_bytes=settings.max_body_mb * MEGABYTE,
        quotas={
            GUEST: settings.file_quota_guest_mb * MEGABYTE,
            "user": settings.file_quota_user_mb * MEGABYTE,
            "admin": settings.file_quota_admin_mb * MEGABYTE,
            "owner": settings.file_quota_owner_mb * MEGABYTE,
        },
    )
    storage.sandbox = Sandbox(settings.sandbox_processes)
    return storage


class FilesOfUser:
    """The files of one user that are visible in one conversation; without a conversation, all of them.

    The id of another user's file raises `NotFound`, exactly as an id that does not exist.
    """

    def __init__(
        self, storage: Storage, database: Database, user_id: int, conversation_id: int | None, turn_id: int | None
    ) -> None:
        self._storage = storage
        self._database = database
        self._user_id = user_id
        self._conversation_id = conversation_id
        self._turn_id = turn_id
        self.holds_secret: Callable[[bytes], bool] | None = None
        self.author: Author = "person"

    async def create(
        self, filename: str, content: bytes, mime_type: str = "", *, author: Author | None = None
    ) -> StoredFile:
        """Store a new file; its type is detected from the content, `mime_type` only distinguishes kinds of text.

        `author` says who may have chosen its name, if it is not who wrote the call's arguments.
        Raises `ToolError` when the file or all files of the user together are too large, or it holds a secret.
        """
        if len(content) > self._storage.max_file_bytes:
            raise ToolError(f"A file may have up to {self._storage.max_file_bytes // MEGABYTE} MB.")
        if self.holds_secret is not None and await asyncio.to_thread(self.holds_secret, content):
            raise ToolError("The file is not stored: it holds a secret of this installation, or a person's credential.")
        values = {
            "user_id": self._user_id,
            "conversation_id": self._conversation_id,
            "turn_id": self._turn_id,
            "filename": clean_filename(filename),
            "minio_key": new_key(str(self._user_id), filename),
            "mime_type": detect_type(content, mime_type),
            "size_bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "author": author or self.author,
        }
        async with self._database.transaction() as session:
            # Serialises concurrent uploads of a user, which could otherwise exceed the quota together.
            await session.execute(statements.lock_files, {"user_id": self._user_id})
            quota = await read_quota(session, self._user_id, self._storage.quotas)
            if len(content) > quota.free:
                limit = f"{quota.limit // MEGABYTE:,} MB"
                raise ToolError(f"No room: all your files together may take {limit}. Deleting old files makes room.")
            record = cast("FileRecord", (await session.execute(statements.add_file, values)).one())
        try:
            await self._storage.put(record.minio_key, content, record.mime_type)
        except (ToolError, Unavailable):
            await self._mark(record.id, "failed")
            raise
        await self._mark(record.id, "stored")
        return self._storage.describe(record)

    async def read(self, file_id: int) -> tuple[StoredFile, bytes]:
        """Return a file with its content; raises `FileLost` or `FileDamaged` when the store has it no more."""
        record = await self._find(file_id)
        content = b"".join([chunk async for chunk in self._storage.read(to_content(record))])
        return self._storage.describe(record), content

    async def find_content(self, file_id: int) -> StoredContent:
        """Return where the content of a file is; raises `NotFound` or `ToolError` as `read` does."""
        return to_content(await self._find(file_id))

    async def list(self, *, limit: int = MAX_LISTED, skip: int = 0) -> list[StoredFile]:
        """Return the files, newest first."""
        async with self._database.statement() as session:
            rows = (await session.execute(statements.list_files, self._scope | {"limit": limit, "skip": skip})).all()
        return [self._storage.describe(record) for record in rows]

    async def link(self, file_id: int) -> StoredFile:
        """Return a file with a new link."""
        return self._storage.describe(await self._find(file_id))

    async def rename(self, file_id: int, filename: str) -> StoredFile:
        """Give a file another name and return it; a name without an extension keeps the old one."""
        record = await self._find(file_id)
        if not filename.strip():
            raise ToolError("filename is empty.")
        old, name = PurePosixPath(record.filename), clean_filename(filename)
        author = self.author
        if not PurePosixPath(name).suffix:
            name = clean_filename(name + old.suffix)
            author = "stranger" if record.author == "stranger" and old.suffix else author
        async with self._database.statement() as session:
            await session.execute(statements.rename_file, {"id": record.id, "filename": name, "author": author})
        return replace(self._storage.describe(record), filename=name, author=to_author(author))

    async def delete(self, file_id: int) -> StoredFile:
        """Delete a file and return it; the content first, so that after a failure the row is there for another try."""
        record = await self._find(file_id, is_any_status=True)
        await self._storage.delete(record.minio_key)
        async with self._database.statement() as session:
            await session.execute(statements.remove_file, {"id": record.id})
        return self._storage.describe(record)

    async def run_program(self, program: Program, content: bytes) -> Finished:
        """Run a program that opens untrusted content, confined, in this person's turn; raises as `Sandbox.run`."""
        return await self._storage.sandbox.run(self._user_id, program, content)

    def enter_sandbox(self) -> AbstractAsyncContextManager[None]:
        """Wait for a place of this person in the sandbox; the block is the life of one process."""
        return self._storage.sandbox.enter(self._user_id)

    async def _mark(self, file_id: int, status: str) -> None:
        async with self._database.statement() as session:
            await session.execute(statements.mark_file, {"id": file_id, "status": status})

    @property
    def _scope(self) -> dict[str, int | None]:
        return {"user_id": self._user_id, "conversation_id": self._conversation_id}

    async def _find(self, file_id: int, *, is_any_status: bool = False) -> "FileRecord":
        if not 0 < file_id <= MAX_ID:
            raise NotFound(what="file")
        async with self._database.statement() as session:
            record = (await session.execute(statements.find_own_file, self._scope | {"id": file_id})).one_or_none()
        if record is None:
            raise NotFound(what="file")
        if not record.is_visible:
            raise ToolError("This file was sent in private, or elsewhere: ask for it in a direct message.")
        if record.status != "stored" and not is_any_status:
            label = to_label(record.id, record.filename, to_author(record.author))
            raise ToolError(f"The file {label} has not arrived; it has to be sent again.")
        return cast("FileRecord", record)
