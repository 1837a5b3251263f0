"""The files of a reply that can be sent."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.errors import NotFound, Unavailable
from shared.messages import ReplyFile

if TYPE_CHECKING:
    from agent.app import App

MOST_FILES = 10


@dataclass(frozen=True, slots=True)
class Upload:
    """A file to be uploaded."""

    filename: str
    content: bytes


async def collect(
    app: "App", files: Sequence[ReplyFile], max_bytes: int, *, allows_empty: bool = True
) -> tuple[list[Upload], list[ReplyFile]]:
    """Return the files that fit into `max_bytes` bytes in all, with one place kept free, and the others."""
    uploads: list[Upload] = []
    others: list[ReplyFile] = []
    for each in files:
        upload = await _read(app, each) if each.size_bytes <= max_bytes and len(uploads) < MOST_FILES - 1 else None
        if upload is None or not (upload.content or allows_empty):
            others.append(each)
            continue
        uploads.append(upload)
        max_bytes -= len(upload.content)
    return uploads, others


async def _read(app: "App", file: ReplyFile) -> Upload | None:
    try:
        _, chunks = await app.files.storage.open(app.database, file.file_id)
        async with aclosing(chunks) as pieces:
            return Upload(file.filename, b"".join([piece async for piece in pieces]))
    except (NotFound, Unavailable):
        return None
