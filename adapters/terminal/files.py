"""Files that a person hands over in the terminal: named with /attach, or dragged into the window."""

import asyncio
import mimetypes
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex
from urllib.parse import unquote, urlsplit

from shared.errors import Refusal
from shared.files.storage import Storage
from shared.messages import Attachment

CHUNK_BYTES = 256 * 1024


def find_file(text: str, limit_mb: int) -> Path:
    """Return the file that the text names; raises `Refusal` that says why it can't be sent."""
    path = to_path(text)
    try:
        if not path.is_file():
            raise Refusal(f"There is no file {path}.")
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except OSError as error:
        raise Refusal(f"{path} can't be read: {error.strerror or error}.") from None
    if size > limit_mb * 1024 * 1024:
        raise Refusal(f"{path.name} is too large: {size / 1_000_000:.0f} MB, and MAX_BODY_MB is {limit_mb}.")
    return path


def find_dragged(line: str) -> Path | None:
    """Return the file when the whole line is its absolute path, as a terminal writes a file that is dropped on it."""
    if not line.startswith(("/", "'/", '"/', "~/", "file:///")) or "\n" in line:
        return None
    path = to_path(line)
    try:
        return path if path.is_absolute() and path.is_file() else None
    except OSError:
        return None


def to_path(text: str) -> Path:
    """Return the path that is written there: plain, quoted, with escaped blanks, or as a file: address."""
    text = text.strip()
    if text.startswith("file://"):
        return Path(unquote(urlsplit(text).path))
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    # Blanks that nobody quoted still belong to the name.
    return Path(words[0] if len(words) == 1 else text).expanduser()


async def store(storage: Storage, path: Path) -> Attachment:
    """Put the file into storage, ready to go with a message."""
    mime_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    key = f"{token_hex(16)}/incoming"
    size = await storage.put(key, _chunks(path), mime_type)
    return Attachment(path.name, mime_type, size, storage_key=key)


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield chunk


def to_size(size: int) -> str:
    """Return a size as people say it."""
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
