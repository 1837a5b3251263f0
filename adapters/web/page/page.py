"""The chat page, which a session opens, and its static files."""

import gzip
import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from functools import cache
from html import escape
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from adapters.web.guard import app_of, has_copy
from adapters.web.login.links import open_link, show_entrance
from adapters.web.login.sessions import cookie_of, find_session, set_cookie
from adapters.web.notes import HEADERS, NO_STORE
from adapters.web.texts import read_texts

STATIC = Path(__file__).parent.parent / "static"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".html": "text/html"}
BINARY_TYPES = {".png": "image/png", ".webmanifest": "application/manifest+json"}
TEMPLATES = {".html", ".webmanifest"}
WORKER = STATIC / "worker.js"
TEXTS_MODULE = STATIC / "texts.js"
PLACEHOLDER = re.compile(r"\{\{ (\w+) \}\}")
# What is shown while there is no network.
OFFLINE = tuple(STATIC / name for name in ("offline.html", "style.css", "theme.js", "icon.svg"))


async def get_page(request: Request) -> Response:
    """Show the page to a browser with a session; sign one in by a one-time link."""
    session = await find_session(request)
    key = request.query_params.get("key")
    if key is not None and request.method == "GET":
        return await open_link(request, session, key, is_alone=request.headers.get("sec-fetch-site") == "none")
    if session is None:
        return show_entrance(app_of(request))
    # So that the page can tell what another person has left in this browser.
    person = hashlib.sha256(session.account.encode()).hexdigest()[:16]
    page = render_texts(STATIC / "index.html").replace("<html ", f'<html data-person="{person}" ', 1)
    response = HTMLResponse(page, headers=NO_STORE)
    # Each visit extends the session by 30 days.
    app = app_of(request)
    set_cookie(app, response, request.cookies[cookie_of(app)])
    return response


@cache
def render_texts(path: Path) -> str:
    """Return a file of the page with the texts that it names; its scripts get all that are the page's own."""
    content, texts = path.read_text("utf-8"), read_texts()
    if path == TEXTS_MODULE:
        texts = {key: text for key, text in texts.items() if "." not in key}
        return content.replace('{ TEXTS: "" }', json.dumps(texts, ensure_ascii=False))
    return PLACEHOLDER.sub(lambda place: escape(texts[place[1]]), content)


def static_routes() -> list[Route]:
    """Return a route for each static file, libraries of others included."""
    paths = [path for path in sorted(STATIC.rglob("*")) if path.suffix in TYPES | BINARY_TYPES and path != WORKER]
    return [Route(to_address(path), _sender_of(path)) for path in paths]


def to_address(path: Path) -> str:
    """Return the address of a static file."""
    return f"/static/{path.relative_to(STATIC).as_posix()}"


async def get_worker(_request: Request) -> Response:
    """Send the page's service worker: it keeps what is shown when there is no network, and nothing else."""
    return Response(_render_worker(), media_type="text/javascript", headers=HEADERS)


@cache
def _render_worker() -> str:
    # Another file, another version: browsers see that the worker has changed.
    version = hashlib.sha256(b"".join(_read(path)[0] for path in OFFLINE)).hexdigest()[:16]
    listed = json.dumps([to_address(path) for path in OFFLINE])
    return WORKER.read_text("utf-8").replace("VERSION_OF_FILES", version).replace('["FILES"]', listed)


@cache
def _read(path: Path) -> tuple[bytes, bytes, str]:
    """Return a static file, the same compressed, and its tag; read with the first request, which many never have."""
    is_text = path.suffix in TEMPLATES or path == TEXTS_MODULE
    content = render_texts(path).encode() if is_text else path.read_bytes()
    return content, gzip.compress(content, mtime=0), f'"{hashlib.sha256(content).hexdigest()[:20]}"'


def to_type(path: Path) -> str:
    """Return the media type of a static file."""
    return BINARY_TYPES.get(path.suffix) or f"{TYPES[path.suffix]}; charset=utf-8"


def _sender_of(path: Path) -> Callable[[Request], Awaitable[Response]]:
    async def send(request: Request) -> Response:
        content, packed, etag = _read(path)
        headers = HEADERS | {"ETag": etag, "Content-Type": to_type(path)}
        headers["Vary"] = "Accept-Encoding"
        if has_copy(request, etag):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, headers=headers | {"Content-Encoding": "gzip"})
        return Response(content, headers=headers)

    return send
