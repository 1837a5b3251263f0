"""Tools for the user's files: create, read, list, search, link, rename, delete."""

from typing import Any, Literal

from modules.file_manager.render import render
from modules.file_manager.search import search
from shared.documents.pages import to_page
from shared.documents.reading import read_text
from shared.files.file_types import EXCEL, WORD
from shared.messages import Permission
from shared.tools import ToolContext, tool

MIME_TYPES = {
    "txt": "text/plain",
    "md": "text/markdown",
    "html": "text/html",
    "csv": "text/csv",
    "json": "application/json",
    "docx": WORD,
    "pdf": "application/pdf",
    "xlsx": EXCEL,
}
MAX_SKIPPED = 100_000


# `acts=False`: a new file is shown only to the user, like an answer, and needs no confirmation.
@tool(requires=Permission.GUEST, acts=False, words=("Writing the document {title}", "Wrote the document {title}"))
async def create_document(
    context: ToolContext,
    title: str,
    content: str,
    format: Literal["txt", "md", "html", "csv", "json", "docx", "pdf", "xlsx"] = "md",  # noqa: A002  # the name in the schema for models
) -> dict[str, Any]:
    """Make a file: docx, pdf from Markdown, xlsx from CSV.

    Example: {"title": "Plan", "content": "# Plan", "format": "md"} -> Plan.md
    """
    filename, document = await render(context.storage, title, content, kind=format)
    file = await context.storage.create(filename, document, MIME_TYPES[format])
    return {**file.note, "file_id": file.file_id, "filename": file.filename, "url": file.url}


@tool(
    requires=Permission.GUEST,
    read_only=True,
    repeatable=True,
    reads_untrusted=True,
    reads_private=True,
    words=("Reading file {file_id}", "Read file {file_id}"),
)
async def read_document(context: ToolContext, file_id: int, offset: int = 0) -> dict[str, Any]:
    """Read a file's text.

    Example: {"file_id": 1} -> Water the plants.
    """
    file, content = await context.storage.read(file_id)
    text = await read_text(context.storage, file, content)
    head = {"filename": file.filename, "mime_type": file.mime_type}
    # Leaves a quarter of the limit for the escapes that JSON adds for quotes and line breaks.
    size = max(100, context.app_settings.tool_result_max_chars * 3 // 4)
    return {**head, **to_page(text, offset, size, is_table=file.mime_type == MIME_TYPES["csv"])}


@tool(
    requires=Permission.GUEST,
    read_only=True,
    repeatable=True,
    reads_private=True,
    words=("Listing your files", "Listed your files"),
)
async def list_files(context: ToolContext, skip: int = 0) -> list[dict[str, Any]]:
    """List the user's files, newest first.

    Example: {} -> notes.md
    """
    skip = min(max(skip, 0), MAX_SKIPPED)
    return [
        {
            # Before the name: a long result is cut at its end.
            **file.note,
            "file_id": file.file_id,
            "filename": file.filename,
            "mime_type": file.mime_type,
            "size_bytes": file.size_bytes,
        }
        for file in await context.storage.list(skip=skip)
    ]


# For users, because what guests are offered stays small.
@tool(
    requires=Permission.USER,
    read_only=True,
    repeatable=True,
    reads_untrusted=True,
    reads_private=True,
    words=("Searching your files for “{query}”", "Searched your files for “{query}”"),
)
async def search_files(context: ToolContext, query: str) -> dict[str, Any]:
    """Find files by name or text.

    Example: {"query": "plants"} -> notes.md
    """
    return await search(context.storage, query)


@tool(
    requires=Permission.GUEST,
    read_only=True,
    repeatable=True,
    reads_private=True,
    words=("Making a link to file {file_id}", "Made a link to file {file_id}"),
)
async def get_file_link(context: ToolContext, file_id: int) -> dict[str, Any]:
    """Get a download link.

    Example: {"file_id": 1} -> "url": "http
    """
    file = await context.storage.link(file_id)
    return {**file.note, "file_id": file.file_id, "filename": file.filename, "url": file.url}


@tool(
    requires=Permission.USER,
    repeatable=True,
    acts=False,
    words=("Renaming a file to {filename}", "Renamed a file to {filename}"),
)
async def rename_file(context: ToolContext, file_id: int, filename: str) -> dict[str, Any]:
    """Rename a file.

    Example: {"file_id": 1, "filename": "plants.md"} -> plants.md
    """
    file = await context.storage.rename(file_id, filename)
    return {**file.note, "file_id": file.file_id, "filename": file.filename}


@tool(requires=Permission.GUEST, words=("Deleting file {file_id}", "Deleted file {file_id}"))
async def delete_file(context: ToolContext, file_id: int) -> dict[str, Any]:
    """Delete a file.

    Example: {"file_id": 2} -> "deleted": true
    """
    file = await context.storage.delete(file_id)
    return {**file.note, "deleted": True, "filename": file.filename}
