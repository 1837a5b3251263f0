"""Finds files by their names and by the text in them."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from shared.documents.reading import read_text
from shared.errors import ToolError
from shared.files.stored_file import StoredFile
from shared.text import clean

if TYPE_CHECKING:
    from shared.files.storage import FilesOfUser

MAX_FOUND = 10
# Only the newest files are read, and no large ones: reading takes a process for each document.
MAX_READ, MAX_READ_BYTES = 30, 5 * 1024 * 1024
READ_SECONDS, SEARCH_SECONDS = 10.0, 40.0
MAX_NAMES = 500
UNREAD = "The text of {count} more files was not searched."
AROUND = 80
TEXTLESS = ("image/", "audio/", "video/", "font/")


async def search(files: "FilesOfUser", query: str) -> dict[str, Any]:
    """Return the files whose name or text has all words of the query; raises `ToolError` without words."""
    words = clean(query).lower().split()
    if not words:
        raise ToolError("query is empty; name words of the file's name or text.")
    stored_files = await files.list(limit=MAX_NAMES)
    matches = [_to_result(file) for file in stored_files if _has_all(words, file.filename)][:MAX_FOUND]
    match_ids = {match["file_id"] for match in matches}
    readable = [
        file
        for file in stored_files
        if file.file_id not in match_ids
        and not file.mime_type.startswith(TEXTLESS)
        and file.size_bytes <= MAX_READ_BYTES
    ]
    queue = iter(readable[:MAX_READ] if len(matches) < MAX_FOUND else ())
    with suppress(TimeoutError):
        async with asyncio.timeout(SEARCH_SECONDS):
            await _search_texts(files, queue, words, matches=matches)
    unread = len(list(queue)) + max(0, len(readable) - MAX_READ)
    return {"files": matches, **({"note": UNREAD.format(count=unread)} if unread else {})}


async def _search_texts(
    files: "FilesOfUser", queue: Iterator[StoredFile], words: list[str], *, matches: list[dict[str, Any]]
) -> None:
    """Add files of `queue` to `matches` until it is full."""
    for file in queue:
        try:
            stored_file, content = await files.read(file.file_id)
            text = await read_text(files, stored_file, content, seconds=READ_SECONDS)
        except ToolError:
            # A file without text, or one that has just been deleted, is no error of the search.
            continue
        if _has_all(words, text):
            at = max(0, text.lower().find(words[0]))
            excerpt = " ".join(text[max(0, at - AROUND) : at + AROUND].split())
            matches.append({**_to_result(file), "text": excerpt})
        if len(matches) == MAX_FOUND:
            return


def _has_all(words: list[str], text: str) -> bool:
    text = text.lower()
    return all(word in text for word in words)


def _to_result(file: StoredFile) -> dict[str, Any]:
    return {"file_id": file.file_id, "filename": file.filename, "mime_type": file.mime_type}
