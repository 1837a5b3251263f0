"""Tools for the user's files: create, read, list, link, delete."""

from typing import Any, Literal

from modules.file_manager.render import render
from shared.documents.reading import read_text
from shared.permissions import Permission
from shared.tools import ToolContext, tool

MIME_TYPES = {
    "txt": "text/plain",
    "md": "text/markdown",
    "html": "text/html",
    "csv": "text/csv",
    "json": "application/json",
}


# `acts=False`: a new file is shown only to the user, like an answer, and needs no confirmation.
@tool(requires=Permission.GUEST, acts=False)
async def create_document(
    context: ToolContext,
    title: str,
    content: str,
    format: Literal["txt", "md", "html", "csv", "json"] = "md",  # noqa: A002  # the name in the schema for models
) -> dict[str, Any]:
    """Make a file for the user."""
    filename, text = await render(title, content, format)
    file = await context.storage.create(filename, text.encode(), MIME_TYPES[format])
    return {"file_id": file.file_id, "filename": file.filename, "url": file.url}


@tool(requires=Permission.GUEST, read_only=True, repeatable=True, reads_untrusted=True, reads_private=True)
async def read_document(context: ToolContext, file_id: int, offset: int = 0) -> dict[str, Any]:
    """Read a file's text."""
    file, content = await context.storage.read(file_id)
    text = await read_text(context.storage, file, content)
    start = min(max(offset, 0), len(text))
    # Leaves a quarter of the limit for the escapes that JSON adds for quotes and line breaks.
    part = text[start : start + max(100, context.app_settings.tool_result_max_chars * 3 // 4)]
    result: dict[str, Any] = {"filename": file.filename, "mime_type": file.mime_type, "text": part}
    if start + len(part) < len(text):
        result["note"] = f"{len(text):,} characters in all; read on with offset {start + len(part)}."
    return result


@tool(requires=Permission.GUEST, read_only=True, repeatable=True, reads_private=True)
async def list_files(context: ToolContext) -> list[dict[str, Any]]:
    """List the user's files."""
    return [
        {"file_id": file.file_id, "filename": file.filename, "mime_type": file.mime_type, "size_bytes": file.size_bytes}
        for file in await context.storage.list()
    ]


@tool(requires=Permission.GUEST, read_only=True, repeatable=True, reads_private=True)
async def get_file_link(context: ToolContext, file_id: int) -> dict[str, Any]:
    """Get a download link."""
    file = await context.storage.link(file_id)
    return {"file_id": file.file_id, "filename": file.filename, "url": file.url}


@tool(requires=Permission.GUEST)
async def delete_file(context: ToolContext, file_id: int) -> dict[str, Any]:
    """Delete a file."""
    file = await context.storage.delete(file_id)
    return {"deleted": True, "filename": file.filename}
