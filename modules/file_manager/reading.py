"""Extracts the text of a file; PDF, Word and HTML are parsed in a sandboxed process."""

import codecs
from pathlib import Path

from shared.errors import ToolError
from shared.files.file_types import WORD
from shared.files.storage import FilesOfUser, StoredFile
from shared.text import clean

PARSER = Path(__file__).with_name("extract.py")
PARSE_SECONDS = 20.0
UNREADABLE = 3
PARSED_KINDS = {"application/pdf": "pdf", WORD: "docx", "text/html": "html"}
TEXTLESS_KINDS = {"image": "a picture", "audio": "a sound file", "video": "a video", "font": "a font"}


async def read_text(files: FilesOfUser, file: StoredFile, content: bytes, *, seconds: float = PARSE_SECONDS) -> str:
    """Return the text of one of the user's files.

    Raises `ToolError` when it has none or can't be parsed within `seconds`.
    """
    if kind := PARSED_KINDS.get(file.mime_type):
        return clean(await _parse(files, file, kind, content=content, seconds=seconds))
    if file.mime_type.startswith("text/") or file.mime_type == "application/json":
        encoding = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
        return clean(content.decode(encoding, "replace"))
    what = TEXTLESS_KINDS.get(file.mime_type.partition("/")[0], "a binary file")
    raise ToolError(
        f"{file.filename} is {what} ({file.mime_type}, {file.size_bytes:,} bytes) and has no text to read. "
        "Text, Markdown, HTML, CSV, JSON, PDF and Word (docx) can be read."
    )


async def _parse(files: FilesOfUser, file: StoredFile, kind: str, *, content: bytes, seconds: float) -> str:
    try:
        parser = await files.run_parser(PARSER, kind, content=content, seconds=seconds)
    except TimeoutError as error:
        raise ToolError(f"{file.filename} takes too long to read.") from error
    if parser.status == UNREADABLE:
        raise ToolError(f"{file.filename} can't be read: {parser.reason}")
    if parser.status != 0:
        raise ToolError(f"{file.filename} can't be read: it is damaged, or too large to unpack.")
    return parser.output.decode("utf-8", "replace")
