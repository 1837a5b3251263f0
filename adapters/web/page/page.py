"""`GET /`: the chat page, which a one-time link opens, and its static files."""

import gzip
import hashlib
import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import cache
from html import escape
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from adapters.web.guard import app_of
from adapters.web.page.sessions import find_login_time, find_session, give_session, redeem

STATIC = Path(__file__).parent.parent / "static"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".html": "text/html"}
BINARY_TYPES = {".png": "image/png", ".webmanifest": "application/manifest+json"}
WORKER = STATIC / "worker.js"
# What is shown while there is no network.
OFFLINE = tuple(STATIC / name for name in ("offline.html", "style.css", "theme.js", "icon.svg"))
HEADERS = {
    "Content-Security-Policy": (
        # `blob:` shows pictures that are picked, before they are sent. No script may make HTML of a text but DOMPurify.
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types dompurify parley"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-cache",
}
NO_STORE = HEADERS | {"Cache-Control": "no-store"}
NEW_LINK = "A fresh one is printed by the command: parley link. It opens this page once, within ten minutes."
NOTE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Parley</title><link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/static/style.css">
{head}</head>
<body class="note"><main><img src="/static/icon.svg" alt="" width="56" height="56"><h1>{title}</h1><p>{text}</p>
{more}</main></body></html>"""


async def get_page(request: Request) -> Response:
    """Show the page to a browser with a session; exchange a one-time link for a session."""
    app = app_of(request)
    key = request.query_params.get("key")
    who = find_session(request)
    if key is not None and request.method == "GET":
        web_user = await redeem(app, key)
        if web_user is not None:
            return _enter(request, web_user)
        if who is None:
            return _note("This link has been used or is too old", NEW_LINK, 401)
        return _enter(request, who, since=find_login_time(request))
    if who is None:
        return _note("This page is opened by a link", NEW_LINK, 401)
    # So that the page can tell what another person has left in this browser.
    person = hashlib.sha256(who.encode()).hexdigest()[:16]
    page = (STATIC / "index.html").read_text("utf-8").replace("<html ", f'<html data-person="{person}" ', 1)
    response = HTMLResponse(page, headers=NO_STORE)
    # Each visit extends the session by 30 days.
    give_session(app, response, who, since=find_login_time(request))
    return response


def _enter(request: Request, who: str, *, since: datetime | None = None) -> Response:
    # A page that reloads, and not a redirect: after a click in another site's page, the browser would follow the
    # redirect without the new cookie.
    response = _note("Welcome", "One moment.", 200, refresh="/")
    give_session(app_of(request), response, who, since=since)
    return response


def _note(title: str, text: str, status: int, refresh: str | None = None) -> Response:
    head = f'<meta http-equiv="refresh" content="0; url={refresh}">' if refresh else ""
    more = f'<p><a href="{refresh}">Go on</a></p>' if refresh else ""
    return HTMLResponse(to_note(title, text, head=head, more=more), status, headers=NO_STORE)


def to_note(title: str, text: str, *, head: str = "", more: str = "") -> str:
    """Return a page with one message; `head` and `more` are HTML, the rest is text."""
    return NOTE.format(head=head, title=escape(title), text=escape(text), more=more)


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
    version = hashlib.sha256(b"".join(path.read_bytes() for path in OFFLINE)).hexdigest()[:16]
    listed = json.dumps([to_address(path) for path in OFFLINE])
    return WORKER.read_text("utf-8").replace("VERSION_OF_FILES", version).replace('["FILES"]', listed)


@cache
def _read(path: Path) -> tuple[bytes, bytes, str]:
    """Return a static file, the same compressed, and its tag; read with the first request, which many never have."""
    content = path.read_bytes()
    return content, gzip.compress(content, mtime=0), f'"{hashlib.sha256(content).hexdigest()[:20]}"'


def to_type(path: Path) -> str:
    """Return the media type of a static file."""
    return BINARY_TYPES.get(path.suffix) or f"{TYPES[path.suffix]}; charset=utf-8"


def _sender_of(path: Path) -> Callable[[Request], Awaitable[Response]]:
    async def send(request: Request) -> Response:
        content, packed, etag = _read(path)
        headers = HEADERS | {"ETag": etag, "Content-Type": to_type(path)}
        headers["Vary"] = "Accept-Encoding"
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, headers=headers | {"Content-Encoding": "gzip"})
        return Response(content, headers=headers)

    return send
