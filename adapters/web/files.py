"""`GET /files/{id}`: the download behind a signed link."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from adapters.web.api.faults import Fault
from adapters.web.auth import app_of
from shared.errors import NotFound

NO_FILE = "There is no such file, or its link has expired; ask for a new link."
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    # Whatever the file is, a browser runs nothing in it and lets it reach nothing.
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:",
    "Cache-Control": "private, no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def get_file(request: Request) -> Response:
    """Send a file to whoever holds its link; a wrong link and a missing file are answered alike."""
    app = app_of(request)
    text = request.path_params["id"]
    file_id = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    if not app.storage.check(file_id, request.query_params):
        raise Fault(404, "not_found", NO_FILE)
    try:
        file, content = await app.storage.open(app.database, file_id)
        # The first piece is read before the answer begins: a file that is gone is a 404.
        first = await anext(content, b"")
    except NotFound:
        raise Fault(404, "not_found", NO_FILE) from None
    headers = HEADERS | {"Content-Disposition": disposition(file.filename), "Content-Length": str(file.size_bytes)}
    return StreamingResponse(joined(first, content), media_type=file.mime_type, headers=headers)


async def joined(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the first piece and the rest, and close the file also when the reader leaves."""
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece


def disposition(filename: str) -> str:
    """Return the header that saves a file under its name, in plain letters for old programs and in full for others."""
    plain = "".join(char if char.isascii() and char.isprintable() and char not in '"\\%' else "_" for char in filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"
