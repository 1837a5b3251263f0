"""Links by which a chat is shown: made, listed and ended by its person, and the page that they open."""

import re
from html import escape
from typing import Annotated

from itsdangerous import BadSignature, URLSafeSerializer
from pydantic import Field
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from adapters.web.api.bodies import MAX_JSON_BYTES, Closed, read_json
from adapters.web.api.messages import number
from adapters.web.faults import Fault
from adapters.web.guard import app_of
from adapters.web.login.sessions import session_of, with_session
from adapters.web.notes import HEADERS, to_note
from adapters.web.page.chat import place_in
from adapters.web.page.chats import NO_CHAT, NO_STORE, TITLE_CHARS, find_chat, to_range, to_title
from adapters.web.texts import say, to_day
from agent.app import App
from agent.journal.files import FILES_HEADING
from shared.db.statements import load_statements
from shared.text import MAX_ID

statements = load_statements(__file__)

# A page with more would be one that no browser likes to open; who has the link may have it made again and again.
SHOWN_MESSAGES, SHOWN_BYTES = 2000, 2_000_000
# A signed link to a file opens it for whoever has it.
FILE_LINK = re.compile(r"(?:https?://[^\s/<>()\[\]\"']+)?/files/\d+\?[\w=&.%-]+")
NAMED_FILE_LINK = re.compile(rf"!?\[([^\[\]]*)\]\({FILE_LINK.pattern}\)")
GONE = (say("share.nothing_here"), say("share.link_has_ended"))
PAGE = """<!doctype html>
<html lang="{language}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow"><meta name="color-scheme" content="light dark">
<title>{title} · Parley</title><link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/static/style.css">
<script type="module" src="/static/share.js"></script></head>
<body class="shared"><main><header><img src="/static/icon.svg" alt="" width="32" height="32"><div><h1>{title}</h1>
<p>{about}</p></div></header>
<div role="log" aria-live="off" aria-label="{conversation}">{messages}</div></main></body></html>"""
MESSAGE = '<article class="message {kind}" aria-label="{speaker}"><div class="{part}" dir="auto">{text}</div></article>'
SHARED_HEADERS = HEADERS | {
    "Content-Security-Policy": HEADERS["Content-Security-Policy"].replace("connect-src 'self'", "connect-src 'none'"),
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex, nofollow",
}


class NewShare(Closed):
    """The body of `POST /page/chats/{chat}/shares`."""

    days: Annotated[int, Field(strict=True, ge=1, le=90)] = 7


def _signer(app: App) -> URLSafeSerializer:
    return URLSafeSerializer(app.secrets.signing_keys, salt="parley-web-share")


def to_url(app: App, share_id: int) -> str:
    """Return the link of a share; without a public address only its path."""
    return f"{(app.settings.public_url or '').rstrip('/')}/shared/{_signer(app).dumps(share_id)}"


@with_session
async def create_share(request: Request) -> Response:
    """Make a link by which the chat is shown as it is now."""
    app, place = app_of(request), place_in(request)
    new = await read_json(request, NewShare, MAX_JSON_BYTES)
    async with app.database.transaction() as session:
        chat = await find_chat(session, session_of(request), place)
        if chat.conversation_id is None:
            raise Fault(404, "not_found", NO_CHAT)
        parameters = {"user_id": chat.user_id, "conversation_id": chat.conversation_id, "days": new.days}
        share_id = await session.scalar(statements.create_share, parameters)
    if share_id is None:
        raise Fault(409, "nothing_to_share", say("share.nothing_to_share"))
    return JSONResponse({"id": share_id, "url": to_url(app, share_id)}, headers=NO_STORE)


@with_session
async def list_shares(request: Request) -> Response:
    """Return the person's links that are open, the newest first."""
    app, who = app_of(request), session_of(request)
    async with app.database.transaction() as session:
        rows = (await session.execute(statements.list_shares, to_range(who) | {"who": who})).all()
    shares = [
        {
            "id": row.id,
            "chat": row.chat,
            "title": to_title(row.title or "")[:TITLE_CHARS],
            "url": to_url(app, row.id),
            "at": row.created_at.isoformat(),
            "expires_at": row.expires_at.isoformat(),
        }
        for row in rows
    ]
    return JSONResponse({"shares": shares}, headers=NO_STORE)


@with_session
async def revoke_share(request: Request) -> Response:
    """End a link at once."""
    share_id = number(request.path_params["share"], "share", MAX_ID)
    parameters = {"id": share_id, "who": session_of(request)}
    async with app_of(request).database.transaction() as session:
        if (await session.execute(statements.revoke_share, parameters)).one_or_none() is None:
            raise Fault(404, "not_found", say("share.no_link"))
    return JSONResponse({}, headers=NO_STORE)


async def get_share(request: Request) -> Response:
    """Show a chat to whoever has its link: without a session, files, or what tools did."""
    app = app_of(request)
    share_id = read_token(app, request.path_params["token"])
    parameters = {"id": share_id, "limit": SHOWN_MESSAGES, "bytes": SHOWN_BYTES}
    row, messages = None, []
    if share_id is not None:
        async with app.database.transaction() as session:
            row = (await session.execute(statements.read_share, parameters)).one_or_none()
            messages = list((await session.execute(statements.list_shared_messages, parameters)).all())
    if row is None or not messages:
        return HTMLResponse(to_note(*GONE), 404, headers=SHARED_HEADERS)
    # Without the names of files, as the messages.
    title = to_title((row.title or "").partition(FILES_HEADING)[0])[:TITLE_CHARS]
    page = PAGE.format(
        language=say("language"),
        title=escape(title or say("share.a_chat")),
        about=escape(say("share.about", shared=to_day(row.created_at), ends=to_day(row.expires_at))),
        conversation=escape(say("conversation")),
        messages="".join(render_message(message.role, message.content) for message in messages),
    )
    return HTMLResponse(page, headers=SHARED_HEADERS)


def read_token(app: App, token: str) -> int | None:
    """Return the id of the share that a link names; None if we have not signed it."""
    try:
        share_id = _signer(app).loads(token)
    except BadSignature:
        return None
    return share_id if isinstance(share_id, int) else None


def render_message(role: str, content: str) -> str:
    """Return a message as text; the page's script turns the Markdown of answers into what it means."""
    said, heading, _ = content.rpartition(FILES_HEADING)
    text = NAMED_FILE_LINK.sub(rf"\1 {say('share.not_shared')}", said if heading and role == "user" else content)
    text = FILE_LINK.sub(say("share.not_shared"), text).strip()
    if role == "user":
        return MESSAGE.format(
            kind="person", speaker=escape(say("share.person")), part="bubble", text=escape(text or say("share.files"))
        )
    return MESSAGE.format(kind="agent", speaker="Parley", part="text source", text=escape(text))
