"""Pages with one message, and the headers of all pages."""

from collections.abc import Mapping
from html import escape

from starlette.responses import HTMLResponse, Response

from adapters.web.texts import say

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
NEW_LINK = say("login.new_link")
NOTE = """<!doctype html>
<html lang="{language}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Parley</title><link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/static/style.css">
{head}</head>
<body class="note"><main><img src="/static/icon.svg" alt="" width="56" height="56"><h1>{title}</h1><p>{text}</p>
{more}</main></body></html>"""


def note(
    title: str,
    text: str,
    status: int,
    *,
    refresh: str | None = None,
    more: str = "",
    headers: Mapping[str, str] = NO_STORE,
) -> Response:
    """Return a page with one message that leads on to `refresh`; `more` is HTML below it, the rest is text."""
    address = escape(refresh or "")
    head = f'<meta http-equiv="refresh" content="0; url={address}">' if refresh else ""
    more += f'<p><a href="{address}">{escape(say("login.go_on"))}</a></p>' if refresh else ""
    return HTMLResponse(to_note(title, text, head=head, more=more), status, headers=dict(headers))


def to_note(title: str, text: str, *, head: str = "", more: str = "") -> str:
    """Return a page with one message; `head` and `more` are HTML, the rest is text."""
    return NOTE.format(language=say("language"), head=head, title=escape(title), text=escape(text), more=more)
