"""Uploaded files: they are stored before the message's inbox row exists."""

import asyncio
import binascii
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from adapters.web.api.bodies import LARGE_BYTES, MAX_JSON_BYTES, SentFile, capped, require_type
from adapters.web.faults import Fault, invalid
from agent.app import App
from shared.files.filenames import clean_filename, new_key
from shared.files.stores.content import in_chunks
from shared.messages import Attachment
from shared.text import clean, cut

# Takes the place of the user's id in the storage key: the user may not exist yet.
INCOMING = "incoming"
WHITESPACE = b" \t\n\r\f\v"


async def store_sent(app: App, files: Sequence[SentFile]) -> tuple[Attachment, ...]:
    """Store the files sent as base64; those with a URL are fetched later, during the turn."""
    async with all_or_none(app) as attachments:
        for position, file in enumerate(files):
            if file.data is None:
                attachments.append(
                    Attachment(clean_filename(file.filename), file.mime_type, file.size_bytes, url=file.url)
                )
                continue
            content = await decode(file.data, f"attachments.{position}.data")
            if file.size_bytes not in (None, len(content)):
                raise invalid(f"attachments.{position}.size_bytes", f"the content has {len(content)} bytes")
            attachments.append(await store_content(app, file.filename, file.mime_type, content=content))
    return tuple(attachments)


async def store_uploads(app: App, uploads: Sequence[UploadFile]) -> tuple[Attachment, ...]:
    """Store the files of a form in chunks."""
    async with all_or_none(app) as attachments:
        for upload in uploads:
            filename = clean_filename(upload.filename or "file")
            key = new_key(INCOMING, filename)
            mime_type = cut(clean(upload.content_type or "application/octet-stream"), 200)
            receipt = await app.files.storage.put(key, in_chunks(upload.read), mime_type)
            # What is there must be known when one fails.
            attachments.append(
                Attachment(filename, mime_type, receipt.size_bytes, storage_key=key, sha256=receipt.sha256)
            )
    return tuple(attachments)


@asynccontextmanager
async def parse_multipart(request: Request, max_bytes: int, *, max_files: int) -> AsyncIterator[FormData]:
    """Give the block the parts of a form with files, which is closed behind it; raises a 400, a 413 or a 415."""
    require_type(request, "multipart/form-data")
    # Some of Python's encodings raise what no parser expects, and some take time that grows with the square of a field.
    if parse_options_header(request.headers["content-type"])[1].get(b"charset", b"utf-8").lower() != b"utf-8":
        raise Fault(415, "unsupported_media_type", "Send the form in UTF-8.")
    parser = MultiPartParser(
        request.headers,
        capped(request, max_bytes),
        max_files=max_files,
        max_fields=10,
        max_part_size=MAX_JSON_BYTES,
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise Fault(400, "invalid_form", error.message) from None
    try:
        yield form
    finally:
        await form.close()


@asynccontextmanager
async def all_or_none(app: App) -> AsyncIterator[list[Attachment]]:
    """Give the block a list for the files that it stores; if it fails, they are deleted again."""
    attachments: list[Attachment] = []
    is_whole = False
    try:
        yield attachments
        is_whole = True
    finally:
        if not is_whole:
            await discard(app, attachments)


async def discard(app: App, attachments: Sequence[Attachment]) -> None:
    """Delete the files of a message that turned out to be a duplicate."""
    for attachment in attachments:
        if attachment.storage_key is not None:
            await app.files.storage.delete(attachment.storage_key)


async def decode(text: str, field: str) -> bytes:
    """Return the content of a text in base64; raises the 400 that names the field."""
    if len(text) > LARGE_BYTES:
        return await asyncio.to_thread(_decoded, text, field)
    return _decoded(text, field)


def _decoded(text: str, field: str) -> bytes:
    try:
        # Not by splitting: of a text with many spaces that makes millions of pieces.
        return b64decode(text.encode("ascii").translate(None, WHITESPACE), validate=True)
    except (binascii.Error, ValueError):
        raise invalid(field, "this is not base64") from None


async def store_content(app: App, filename: str, mime_type: str, content: bytes) -> Attachment:
    """Store one file with this content."""
    key = new_key(INCOMING, filename)
    receipt = await app.files.storage.put(key, content, mime_type)
    return Attachment(clean_filename(filename), mime_type, receipt.size_bytes, storage_key=key, sha256=receipt.sha256)
