"""A file store in a local folder; files are written atomically."""

import asyncio
import errno
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from shared.errors import NotFound, Unavailable

CHUNK_BYTES = 256 * 1024
KEY_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FolderStore:
    """Stores each file under `root` with its key as path; raises `NotFound` for a key that could lead elsewhere."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._incoming = self._root / ".incoming"

    async def put(self, key: str, chunks: AsyncIterator[bytes], mime_type: str) -> int:
        """Store the chunks and return their size in bytes; `mime_type` is not used."""
        path = self._path(key)
        size = 0
        with _os_error_as_unavailable():
            temporary = await asyncio.to_thread(self._open_temporary)
        try:
            async for chunk in chunks:
                # Only around the write: an OSError of the source must not be reported as the store's.
                with _os_error_as_unavailable():
                    size += await asyncio.to_thread(temporary.write, chunk)
            with _os_error_as_unavailable():
                await asyncio.to_thread(_publish, temporary, path)
        finally:
            _discard_temporary(temporary)
        return size

    async def get(self, key: str) -> AsyncGenerator[bytes]:
        """Yield the file in chunks; raises `NotFound` when it does not exist."""
        with _os_error_as_unavailable(), _missing_as_not_found():
            file = await asyncio.to_thread(self._path(key).open, "rb")
        with file:
            while True:
                with _os_error_as_unavailable():
                    chunk = await asyncio.to_thread(file.read, CHUNK_BYTES)
                if not chunk:
                    return
                yield chunk

    async def size(self, key: str) -> int:
        """Return the size in bytes; raises `NotFound` when the file does not exist."""
        with _os_error_as_unavailable(), _missing_as_not_found():
            return (await asyncio.to_thread(self._path(key).stat)).st_size

    async def delete(self, key: str) -> None:
        """Delete the file if it exists."""
        with _os_error_as_unavailable():
            await asyncio.to_thread(self._remove, self._path(key))

    async def aclose(self) -> None:
        """Do nothing: no file is kept open."""

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if not all(KEY_PART.fullmatch(part) for part in parts):
            raise NotFound(what="file")
        return self._root.joinpath(*parts)

    def _open_temporary(self) -> BinaryIO:
        for folder in (self._root, self._incoming):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return open(self._incoming / token_hex(16), "xb", opener=open_owner_only)

    def _remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        # Each file has a folder of its own, the random part of its key.
        if path.parent != self._root and path.parent.is_dir() and not any(path.parent.iterdir()):
            path.parent.rmdir()


def _publish(temporary: BinaryIO, path: Path) -> None:
    temporary.flush()
    os.fsync(temporary.fileno())
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    Path(temporary.name).rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # Otherwise a power failure may lose the directory entry of a file that was written.
        os.fsync(folder)
    finally:
        os.close(folder)


def open_owner_only(path: str, flags: int) -> int:
    """Open a file that is readable for its owner alone: the `opener` of `open`."""
    return os.open(path, flags, 0o600)


def _discard_temporary(temporary: BinaryIO) -> None:
    # Closing flushes the buffer, which fails on a full disk. After `_publish` the temporary name no longer exists.
    with suppress(OSError):
        temporary.close()
    with suppress(OSError):
        Path(temporary.name).unlink()


@contextmanager
def _os_error_as_unavailable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL_ERRNOS:
            raise Unavailable("The file store is full.") from error
        raise Unavailable("The file store can't be used just now.") from error


@contextmanager
def _missing_as_not_found() -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise NotFound(what="file") from error
