"""A content on its way into a store: in chunks, measured and with a checksum."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import NamedTuple

from shared.errors import ToolError
from shared.files.stores.store import Store

CHUNK_BYTES = 256 * 1024
MEGABYTE = 1024 * 1024


class Content(NamedTuple):
    """The size of a content, and its SHA-256 in hexadecimal."""

    size_bytes: int
    sha256: str


async def put(store: Store, key: str, chunks: AsyncIterator[bytes], *, mime_type: str, limit: int) -> Content:
    """Store a content and return its size and checksum; raises `ToolError` when it has more than `limit` bytes."""
    sha256 = hashlib.sha256()
    size = await store.put(key, hash_chunks(_limit_size(chunks, limit), sha256), mime_type)
    return Content(size, sha256.hexdigest())


async def iterate(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield chunks that are there already, for what awaits each."""
    for chunk in chunks:
        yield chunk


async def in_chunks(read: Callable[[int], Awaitable[bytes]]) -> AsyncIterator[bytes]:
    """Yield what `read` returns for so many bytes, until it returns none."""
    while chunk := await read(CHUNK_BYTES):
        yield chunk


async def hash_chunks(chunks: AsyncIterator[bytes], sha256: "hashlib._Hash") -> AsyncIterator[bytes]:
    """Yield the chunks, each added to the checksum."""
    async for chunk in chunks:
        sha256.update(chunk)
        yield chunk


async def _limit_size(chunks: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise ToolError(f"The file is larger than {limit // MEGABYTE} MB.")
        yield chunk
