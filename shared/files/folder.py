"""A folder as file store: each file appears whole or not at all."""

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
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FolderStore:
    """Keeps each file under its key below `root`; a key that would lead elsewhere is no key."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._incoming = self._root / ".incoming"

    async def put(self, key: str, chunks: AsyncIterator[bytes], mime_type: str) -> int:
        """Store what the chunks give and return its size; the type is not needed here."""
        path = self._path(key)
        size = 0
        with _plain_errors():
            part = await asyncio.to_thread(self._open_part)
        try:
            async for chunk in chunks:
                # Only our own writing: an error of the source is not the store's.
                with _plain_errors():
                    size += await asyncio.to_thread(part.write, chunk)
            with _plain_errors():
                await asyncio.to_thread(_publish, part, path)
        finally:
            _discard(part)
        return size

    async def get(self, key: str) -> AsyncGenerator[bytes]:
        """Give the file in chunks; raises `NotFound` when there is none."""
        with _plain_errors(), _missing_is_not_found():
            file = await asyncio.to_thread(self._path(key).open, "rb")
        with file:
            while chunk := await asyncio.to_thread(_read, file):
                yield chunk

    async def size(self, key: str) -> int:
        """Return the size of the file; raises `NotFound` when there is none."""
        with _plain_errors(), _missing_is_not_found():
            return (await asyncio.to_thread(self._path(key).stat)).st_size

    async def delete(self, key: str) -> None:
        """Remove the file; removing one that is not there is no error."""
        with _plain_errors():
            await asyncio.to_thread(self._remove, self._path(key))

    async def aclose(self) -> None:
        """Nothing is held open."""

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if not all(KEY_PART.fullmatch(part) for part in parts):
            raise NotFound(what="file")
        return self._root.joinpath(*parts)

    def _open_part(self) -> BinaryIO:
        self._incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        return open(self._incoming / token_hex(16), "xb", opener=_for_us_alone)

    def _remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        # The random folder held this one file.
        if path.parent != self._root and path.parent.is_dir() and not any(path.parent.iterdir()):
            path.parent.rmdir()


def _publish(part: BinaryIO, path: Path) -> None:
    part.flush()
    os.fsync(part.fileno())
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    Path(part.name).rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # Without it a power cut may keep the file and lose its name.
        os.fsync(folder)
    finally:
        os.close(folder)


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _read(file: BinaryIO) -> bytes:
    with _plain_errors():
        return file.read(CHUNK_BYTES)


def _discard(part: BinaryIO) -> None:
    # Closing writes what is left, which fails again on a full disk; the name is gone already after publishing.
    with suppress(OSError):
        part.close()
    with suppress(OSError):
        Path(part.name).unlink()


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise Unavailable("The file store is full.") from error
        raise Unavailable("The file store can't be used just now.") from error


@contextmanager
def _missing_is_not_found() -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise NotFound(what="file") from error
