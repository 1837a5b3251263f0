"""Files that a person sends from the terminal: named with /attach, or dropped into the window."""

import asyncio
import errno
import mimetypes
import os
import shlex
from io import FileIO
from pathlib import Path
from secrets import token_hex
from stat import S_ISREG
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from shared.errors import Refusal
from shared.messages import Attachment

if TYPE_CHECKING:
    from shared.files.stores.store import Store


def find_file(text: str, limit_mb: int) -> Path:
    """Return the named file; raises `Refusal` with the reason why it can't be sent."""
    path = Path(text)
    try:
        # A file of this very name goes before what a shell would read in it.
        path = path if path.is_file() else to_path(text)
        if not path.is_file():
            remark = ", but something else, which can't be sent" if path.exists() else ""
            raise Refusal(f"There is no file {path}{remark}.")
        with open_without_waiting(path) as file:
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise Refusal(f"{path} can't be read: {error.strerror or error}.") from None
    if size > limit_mb * 1024 * 1024:
        raise Refusal(f"{path.name} is too large: {size / 1_000_000:.0f} MB, and MAX_BODY_MB is {limit_mb}.")
    return path


def find_dragged(line: str) -> Path | None:
    """Return the file if the whole line is an absolute path: terminals type the path of a dropped file."""
    if not line.startswith(("/", "'/", '"/', "~/", "file:///")) or "\n" in line:
        return None
    path = to_path(line)
    try:
        return path if path.is_absolute() and path.is_file() else None
    except OSError:
        return None


def to_path(text: str) -> Path:
    """Return the path in the text: plain, quoted, with escaped blanks, or as a file: URL."""
    text = text.strip()
    try:
        if text.startswith("file://"):
            return Path(unquote(urlsplit(text).path))
        words = shlex.split(text)
    except ValueError:
        words = []
    # Unquoted blanks belong to the name, too.
    path = Path(words[0] if len(words) == 1 else text)
    try:
        return path.expanduser()
    except RuntimeError:
        # Nobody here has the name behind the `~`.
        return path


async def store_file(store: "Store", path: Path, limit_mb: int) -> Attachment:
    """Store the file as an attachment for a message; raises `Refusal` when it can't be read any more."""
    # Imported here: most questions bring none.
    from shared.files.stores.content import MEGABYTE, in_chunks, put

    mime_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    key = f"{token_hex(16)}/incoming"

    async def read(size: int) -> bytes:
        chunk = await asyncio.to_thread(file.read, size)
        if chunk is None:
            # The system makes it up while it is read, as /proc/kmsg, and has nothing to say just now.
            raise OSError(errno.EAGAIN, "it has no end")
        return chunk

    try:
        with open_without_waiting(path) as file:
            content = await put(store, key, in_chunks(read), mime_type=mime_type, limit=limit_mb * MEGABYTE)
    except OSError as error:
        raise Refusal(f"{path} can't be read any more: {error.strerror or error}. Nothing was sent.") from None
    return Attachment(path.name, mime_type, content.size_bytes, storage_key=key, sha256=content.sha256)


def open_without_waiting(path: Path) -> FileIO:
    """Open a file whose `read` returns None where it would have to wait; raises `OSError` for what is no file."""

    def open_file(name: str, flags: int) -> int:
        descriptor = os.open(name, flags | os.O_NONBLOCK)
        if S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        # It was one when it was named.
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no file")

    return open(path, "rb", buffering=0, opener=open_file)


def to_size(size: int) -> str:
    """Return a size in bytes as text for people."""
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
