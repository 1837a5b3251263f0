"""What a store of files can do."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol


class Eraser(Protocol):
    """Deletes the content of files by key; raises `Unavailable` when that can't be done."""

    async def delete(self, key: str) -> None:
        """Delete the file if it exists."""
        ...


class Store(Eraser, Protocol):
    """Keeps the content of files by key. Raises `Unavailable` when it can't be used, `NotFound` for a missing key."""

    async def put(self, key: str, chunks: AsyncIterator[bytes], mime_type: str) -> int:
        """Store the chunks and return their size in bytes; when `chunks` raises, nothing is stored."""
        ...

    def get(self, key: str) -> AsyncGenerator[bytes]:
        """Yield the file in chunks."""
        ...

    async def size(self, key: str) -> int:
        """Return the size in bytes."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...
