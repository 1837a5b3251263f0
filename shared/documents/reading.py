"""Extracts the text of a document; PDF, Word, Excel and HTML are parsed in the sandbox."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from shared.errors import ToolError
from shared.files.file_types import EXCEL, WORD, find_encoding
from shared.files.stored_file import StoredFile
from shared.sandbox.programs import Program
from shared.text import clean

if TYPE_CHECKING:
    from shared.files.storage import FilesOfUser

PARSER = Path(__file__).with_name("extract.py")
PARSE_SECONDS = 20.0
UNREADABLE = 3
PARSED_KINDS = {"application/pdf": "pdf", WORD: "docx", EXCEL: "xlsx", "text/html": "html"}
TEXTLESS_KINDS = {"image": "a picture", "audio": "a sound file", "video": "a video", "font": "a font"}


async def read_text(files: "FilesOfUser", file: StoredFile, content: bytes, *, seconds: float = PARSE_SECONDS) -> str:
    """Return the text of one of the user's files.

    Raises `ToolError` when it has none or can't be parsed within `seconds`.
    """
    if can_parse(file.mime_type):
        return await parse(files, file.label, file.mime_type, content=content, seconds=seconds)
    if file.mime_type.startswith("text/") or file.mime_type == "application/json":
        return await decode_text(content)
    what = TEXTLESS_KINDS.get(file.mime_type.partition("/")[0], "a binary file")
    raise ToolError(
        f"{file.label} is {what} ({file.mime_type}, {file.size_bytes:,} bytes) and has no text to read. "
        "Text, Markdown, HTML, CSV, JSON, PDF, Word (docx) and Excel (xlsx) can be read."
    )


def can_parse(mime_type: str) -> bool:
    """Return whether `parse` reads documents of this type."""
    return mime_type in PARSED_KINDS


async def decode_text(content: bytes) -> str:
    """Return the text of a plain file in UTF-8, UTF-16 with a byte order mark, or an older encoding."""
    return await asyncio.to_thread(lambda: clean(content.decode(find_encoding(content) or "utf-8-sig", "replace")))


async def parse(
    files: "FilesOfUser", name: str, mime_type: str, *, content: bytes, seconds: float = PARSE_SECONDS
) -> str:
    """Return the text of a document whose type `can_parse` accepts; `name` stands in errors.

    Raises `ToolError` when it has none or can't be parsed within `seconds`.
    """
    try:
        parser = await files.run_program(Program(PARSER, (PARSED_KINDS[mime_type],)).within(seconds), content)
    except TimeoutError as error:
        raise ToolError(f"{name} takes too long to read.") from error
    if parser.status == UNREADABLE:
        raise ToolError(f"{name} can't be read: {parser.reason}")
    if parser.status != 0:
        raise ToolError(f"{name} can't be read: it is damaged, or too large to unpack.")
    return clean(parser.output.decode("utf-8", "replace"))
