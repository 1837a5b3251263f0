"""Finds files by their names and by the text in them."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from shared.documents.reading import read_text
from shared.errors import ToolError
from shared.files.storage import FilesOfUser, StoredFile
from shared.text import clean

MAX_FOUND = 10
# Only the newest files are read, and no large ones: reading takes a process for each document.
MAX_READ, MAX_READ_BYTES = 30, 5 * 1024 * 1024
READ_SECONDS, SEARCH_SECONDS = 10.0, 40.0
MAX_NAMES = 500
UNREAD = "The text of {count} more files was not searched."
AROUND = 80
TEXTLESS = ("image/", "audio/", "video/", "font/")


async def search(files: FilesOfUser, query: str) -> dict[str, Any]:
    """Return the files whose name or text has all words of the query; raises `ToolError` without words."""
    words = clean(query).lower().split()
    if not words:
        raise ToolError("query is empty; name words of the file's name or text.")
    listed = await files.list(limit=MAX_NAMES)
    found = [_to_result(each) for each in listed if _has_all(words, each.filename)][:MAX_FOUND]
    named = {each["file_id"] for each in found}
    readable = [each for each in listed if each.file_id not in named and _is_readable(each)]
    left = iter(readable[:MAX_READ] if len(found) < MAX_FOUND else ())
    with suppress(TimeoutError):
        async with asyncio.timeout(SEARCH_SECONDS):
            await _search_texts(files, left, words, found=found)
    unread = len(list(left)) + max(0, len(readable) - MAX_READ)
    return {"files": found, **({"note": UNREAD.format(count=unread)} if unread else {})}


async def _search_texts(
    files: FilesOfUser, left: Iterator[StoredFile], words: list[str], *, found: list[dict[str, Any]]
) -> None:
    """Add files of `left` to `found` until it is full."""
    for each in left:
        text = await _find_text(files, each)
        if _has_all(words, text):
            found.append({**_to_result(each), "text": _excerpt(text, words[0])})
        if len(found) == MAX_FOUND:
            return


async def _find_text(files: FilesOfUser, file: StoredFile) -> str:
    try:
        stored, content = await files.read(file.file_id)
        return await read_text(files, stored, content, seconds=READ_SECONDS)
    except ToolError:
        # A file without text, or one that has just been deleted, is no error of the search.
        return ""


def _is_readable(file: StoredFile) -> bool:
    return not file.mime_type.startswith(TEXTLESS) and file.size_bytes <= MAX_READ_BYTES


def _has_all(words: list[str], text: str) -> bool:
    text = text.lower()
    return all(word in text for word in words)


def _excerpt(text: str, word: str) -> str:
    at = max(0, text.lower().find(word))
    return " ".join(text[max(0, at - AROUND) : at + AROUND].split())


def _to_result(file: StoredFile) -> dict[str, Any]:
    return {"file_id": file.file_id, "filename": file.filename, "mime_type": file.mime_type}
