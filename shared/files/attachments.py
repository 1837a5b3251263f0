"""Stores the attachments of a message: fetched from the platform, or stored already by an adapter."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import NamedTuple

from shared.errors import ToolError, Unavailable
from shared.files.file_types import HEAD_BYTES, detect_type
from shared.files.storage import Storage
from shared.http.client import GuardedClient
from shared.messages import Attachment

# How long fetching all attachments of one message may take.
FETCH_SECONDS = 30.0


class FetchLimits(NamedTuple):
    """What fetching one attachment may take; the store's and the declared size limit it, too."""

    max_bytes: int | None = None
    seconds: float = FETCH_SECONDS


USUAL_LIMITS = FetchLimits()


class Stored(NamedTuple):
    """The detected type, the size and the checksum of a stored attachment."""

    mime_type: str
    size_bytes: int
    sha256: str | None


async def store_attachment(
    storage: Storage,
    http: GuardedClient,
    attachment: Attachment,
    key: str,
    *,
    headers: Mapping[str, str] | None = None,
    limits: FetchLimits = USUAL_LIMITS,
) -> Stored:
    """Fetch an attachment and store it under `key`; one with a `storage_key` is stored already and only inspected.

    The type is detected from the content. Raises `ToolError` for a file that is missing, larger than it may be or than
    its declared size, or without a URL; `Unavailable` when the platform or the store can't be reached in time.
    """
    if attachment.storage_key is not None:
        head = await storage.head(attachment.storage_key)
        size = await storage.size(attachment.storage_key)
        return Stored(detect_type(head, attachment.mime_type), size, attachment.sha256)
    if attachment.url is None:
        raise ToolError("The file came without a place to fetch it from.")
    sizes = (storage.max_file_bytes, limits.max_bytes, attachment.size_bytes)
    limit = min(size for size in sizes if size is not None)
    async with http.stream(
        "GET",
        attachment.url,
        headers=headers or {},
        trusted=http.is_platform(attachment.url),
        timeout_seconds=limits.seconds,
        max_bytes=limit,
    ) as response:
        if response.status == 429 or response.status >= 500:
            raise Unavailable("The file can't be fetched just now.")
        if response.status != 200:
            raise ToolError(f"The file can't be fetched: its server answered with status {response.status}.")
        is_page = response.headers.get("content-type", "").startswith("text/html")
        if headers and is_page and "html" not in attachment.mime_type:
            # Without valid credentials the platform answers 200 with its sign-in page.
            raise ToolError("The file can't be fetched: the platform asks to sign in.")
        pieces = response.pieces
        head = b""
        async for piece in pieces:
            head += piece
            if len(head) >= HEAD_BYTES:
                break
        mime_type = detect_type(head, attachment.mime_type)
        async with aclosing(_prepend(head, pieces)) as content:
            return Stored(mime_type, *await storage.put(key, content, mime_type, max_bytes=limit))


async def _prepend(head: bytes, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    yield head
    async for piece in pieces:
        yield piece
