"""Files that go out with a reply: those that can be sent, and links to the others."""

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.errors import NotFound, Unavailable
from shared.messages import ReplyFile

if TYPE_CHECKING:
    from agent.app import App

MOST_FILES = 10
MOST_FILE_BYTES = 20 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Upload:
    """A file on its way to Slack."""

    filename: str
    content: bytes


async def collect(app: "App", files: Sequence[ReplyFile]) -> tuple[list[Upload], list[str]]:
    """Return the files that can be sent, and a line with a link for each of the others."""
    uploads: list[Upload] = []
    others: list[ReplyFile] = []
    room = MOST_FILE_BYTES
    for each in files:
        upload = await _read(app, each) if each.size_bytes <= room and len(uploads) < MOST_FILES - 1 else None
        # Slack takes no empty files.
        if upload is None or not upload.content:
            others.append(each)
            continue
        uploads.append(upload)
        room -= len(upload.content)
    return uploads, links_to(others)


def links_to(files: Iterable[ReplyFile]) -> list[str]:
    """Return a line with a link for each file."""
    return [f"\n[{each.filename}]({each.url})" for each in files]


async def _read(app: "App", file: ReplyFile) -> Upload | None:
    try:
        _, chunks = await app.storage.open(app.database, file.file_id)
        async with aclosing(chunks) as pieces:
            return Upload(file.filename, b"".join([piece async for piece in pieces]))
    except (NotFound, Unavailable):
        return None
