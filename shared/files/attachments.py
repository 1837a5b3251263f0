"""Stores the attachments of a message: fetched from the platform, or stored already by an adapter."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import NamedTuple

from shared.errors import ToolError, Unavailable
from shared.files.file_types import HEAD_BYTES, detect_type
from shared.files.storage import Storage
from shared.http.client import GuardedClient, StreamedResponse
from shared.messages import Attachment

FETCH_SECONDS = 60.0


class Stored(NamedTuple):
    """The detected type and the size of a stored attachment."""

    mime_type: str
    size_bytes: int


async def store_attachment(
    storage: Storage,
    http: GuardedClient,
    attachment: Attachment,
    key: str,
    *,
    headers: Mapping[str, str] | None = None,
    max_bytes: int | None = None,
) -> Stored:
    """Fetch an attachment and store it under `key`; one with a `storage_key` is stored already and only inspected.

    The type is detected from the content. Raises `ToolError` for a file that is missing, larger than `max_bytes` or
    without a URL, `Unavailable` when the platform or the store can't be reached.
    """
    if attachment.storage_key is not None:
        head = await storage.head(attachment.storage_key)
        return Stored(detect_type(head, attachment.mime_type), await storage.size(attachment.storage_key))
    if attachment.url is None:
        raise ToolError("The file came without a place to fetch it from.")
    limit = storage.max_file_bytes if max_bytes is None else min(max_bytes, storage.max_file_bytes)
    async with http.stream(
        "GET",
        attachment.url,
        headers=headers or {},
        trusted=http.is_platform(attachment.url),
        timeout_seconds=FETCH_SECONDS,
        max_bytes=limit,
    ) as response:
        _check_status(response)
        if headers and _is_page(response) and "html" not in attachment.mime_type:
            # Without valid credentials the platform answers 200 with its sign-in page.
            raise ToolError("The file can't be fetched: the platform asks to sign in.")
        pieces = response.pieces
        head = await _read_head(pieces)
        mime_type = detect_type(head, attachment.mime_type)
        async with aclosing(_prepend(head, pieces)) as content:
            return Stored(mime_type, await storage.put(key, content, mime_type, max_bytes=limit))


def _check_status(response: StreamedResponse) -> None:
    if response.status == 429 or response.status >= 500:
        raise Unavailable("The file can't be fetched just now.")
    if response.status != 200:
        raise ToolError(f"The file can't be fetched: its server answered with status {response.status}.")


def _is_page(response: StreamedResponse) -> bool:
    return response.headers.get("content-type", "").startswith("text/html")


async def _read_head(pieces: AsyncIterator[bytes]) -> bytes:
    head = b""
    async for piece in pieces:
        head += piece
        if len(head) >= HEAD_BYTES:
            break
    return head


async def _prepend(head: bytes, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    yield head
    async for piece in pieces:
        yield piece
