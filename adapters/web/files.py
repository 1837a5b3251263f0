"""`GET /files/{id}`: downloads with a signed link."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from adapters.web.faults import Fault
from adapters.web.guard import app_of, apps_of
from adapters.web.texts import say
from agent.app import App
from shared.db.database import DatabaseLost
from shared.errors import FileDamaged, FileLost, NotFound
from shared.files.stored_file import StoredFile

NO_FILE = say("file.missing")
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    # Whatever the file contains, the browser must not run it or load anything for it.
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:",
    "Cache-Control": "private, no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def get_file(request: Request) -> Response:
    """Send a file to anybody with its link; a wrong link and an unknown file get the same answer.

    A file that its store has lost, or holds with another content, is 410, before any byte of it.
    """
    app = app_of(request)
    text = request.path_params["id"]
    file_id = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    if not app.files.storage.check(file_id, request.query_params):
        raise Fault(404, "not_found", NO_FILE)
    try:
        file, content = await _open(apps_of(request), file_id)
        # The first chunk is read before the response starts, so that a missing file is an error.
        first = await anext(content, b"")
    except (FileLost, FileDamaged) as error:
        raise Fault(410, error.code, str(error)) from None
    except NotFound:
        raise Fault(404, "not_found", NO_FILE) from None
    headers = HEADERS | {"Content-Disposition": disposition(file.filename), "Content-Length": str(file.size_bytes)}
    return StreamingResponse(joined(first, content), media_type=file.mime_type, headers=headers)


async def _open(apps: Sequence[App], file_id: int) -> tuple[StoredFile, AsyncGenerator[bytes]]:
    # No two cells have files with one id; where one is away, the file may be there.
    reason: NotFound | DatabaseLost | None = None
    for app in apps:
        try:
            return await app.files.storage.open(app.database, file_id)
        except NotFound as error:
            reason = reason or error
        except DatabaseLost as error:
            reason = error
    raise reason or NotFound


async def joined(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the first chunk and the rest, and close the file even if the client disconnects."""
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece


def disposition(filename: str) -> str:
    """Return the Content-Disposition header, with an ASCII name for old clients and the full name for others."""
    plain = "".join(char if char.isascii() and char.isprintable() and char not in '"\\%' else "_" for char in filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"
