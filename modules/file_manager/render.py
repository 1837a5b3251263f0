"""Makes a file of the text that a model wrote."""

import asyncio
import csv
import io
import json
import mimetypes
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from shared.errors import ToolError
from shared.sandbox.job import MEGABYTE, Limits
from shared.sandbox.programs import Program
from shared.text import clean, to_text_cell

if TYPE_CHECKING:
    from shared.files.storage import FilesOfUser

LIMITS = Limits(memory_bytes=1024 * MEGABYTE, cpu_seconds=20, seconds=25, file_bytes=64 * MEGABYTE)
# The writer of workbooks looks up the types of files.
TYPES = tuple(map(Path, mimetypes.knownfiles))
CONVERTER = Program(
    Path(__file__).with_name("office.py"),
    limits=LIMITS,
    readable=TYPES,
    has_folder=True,
    output_bytes=64 * MEGABYTE,
)
IMPOSSIBLE = 3

MAX_CHARS = 500_000
TOO_SLOW = "content takes too long to convert; make it shorter, or write an md document."
# The page can load nothing and run no script, whatever it contains.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = (
    "body{max-width:46rem;margin:2rem auto;padding:0 1rem;font:1rem/1.6 system-ui,sans-serif;color:#222}"
    "table{border-collapse:collapse}td,th{border:1px solid #bbb;padding:.3rem .6rem;text-align:left}"
    "pre,code{font-family:ui-monospace,monospace;background:#f3f3f3}pre{padding:.8rem;overflow:auto}"
    "blockquote{margin-left:0;padding-left:1rem;border-left:3px solid #bbb}"
)


async def render(files: "FilesOfUser", title: str, content: str, kind: str) -> tuple[str, bytes]:
    """Return the file name and content; raises `ToolError` when `content` is not valid for the kind."""
    title = " ".join(clean(title).split())
    content = clean(content)
    if not content.strip():
        raise ToolError("content is empty; a document needs some.")
    if len(content) > MAX_CHARS:
        raise ToolError(f"content is too long; a document may have {MAX_CHARS:,} characters.")
    filename = title if title.lower().endswith(f".{kind}") else f"{title or 'document'}.{kind}"
    title = filename.removesuffix(f".{kind}")
    match kind:
        case "json":
            document = (await asyncio.to_thread(_json, content)).encode()
        case "csv":
            document = (await asyncio.to_thread(_csv, content, to_cell=to_text_cell)).encode()
        case "html" if content.lstrip()[:15].lower().startswith(("<!doctype html", "<html")):
            document = content.encode()
        case "html":
            body = (await _convert(files, "html", title, content=content)).decode()
            document = (
                '<!doctype html>\n<html>\n<head>\n<meta charset="utf-8">\n'
                f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
                '<meta name="viewport" content="width=device-width">\n'
                f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
            ).encode()
        case "xlsx":
            document = await _convert(files, kind, title, content=await asyncio.to_thread(_csv, content))
        case "docx" | "pdf":
            document = await _convert(files, kind, title, content=content)
        case "md" if not content.lstrip().startswith("#"):
            document = f"# {title}\n\n{content.rstrip()}\n".encode()
        case _:
            document = (content.rstrip("\n") + "\n").encode()
    return filename, document


async def _convert(files: "FilesOfUser", kind: str, title: str, *, content: str) -> bytes:
    document = json.dumps({"title": title, "content": content}).encode()
    try:
        converter = await files.run_program(replace(CONVERTER, arguments=(kind,)), document)
    except TimeoutError as error:
        raise ToolError(TOO_SLOW) from error
    if converter.status == IMPOSSIBLE:
        raise ToolError(f"The {kind} file can't be made: {converter.reason}")
    if converter.status != 0:
        raise ToolError(TOO_SLOW)
    return converter.output


def _json(content: str) -> str:
    try:
        value = json.loads(content, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ToolError(f"content is not JSON: {error.msg} in line {error.lineno}, column {error.colno}.") from error
    except RecursionError as error:
        raise ToolError("content is nested too deeply for JSON.") from error
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _refuse_constant(name: str) -> Any:
    raise ToolError(f"content is not JSON: {name} is no JSON value; use null.")


def _csv(content: str, to_cell: Callable[[str], str] = str) -> str:
    try:
        # A carriage return that stands alone would be written without quotes, and begin a new cell.
        plain = content.replace("\r\n", "\n").replace("\r", "\n")
        rows = [row for row in csv.reader(io.StringIO(plain, newline=""), strict=True) if row]
    except csv.Error as error:
        raise ToolError(f"content is not CSV: {error}. Quote cells with commas, double the quotes in them.") from error
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise ToolError(
                f"content is not CSV: row {number} has {len(row)} cells, the first has {len(rows[0])}. "
                "Quote cells with commas in them."
            )
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows([to_cell(cell) for cell in row] for row in rows)
    return out.getvalue()
