"""`GET /page/chats/{chat}/export`: a chat as a file, in Markdown or JSON."""

import json
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from adapters.web.faults import invalid
from adapters.web.files import disposition
from adapters.web.guard import app_of
from adapters.web.login.sessions import session_of, with_session
from adapters.web.page.chat import place_in
from adapters.web.page.chats import NO_STORE, find_chat
from adapters.web.texts import say
from agent.app import App
from shared.db.statements import load_statements

statements = load_statements(__file__)

STEP = 500
TYPES = {"md": "text/markdown", "json": "application/json"}


@with_session
async def export_chat(request: Request) -> Response:
    """Send all messages of a chat, in the order in which they were said."""
    app, place = app_of(request), place_in(request)
    kind = request.query_params.get("format", "md")
    if kind not in TYPES:
        raise invalid("format", say("chat.formats"))
    async with app.database.transaction() as session:
        chat = await find_chat(session, session_of(request), place)
    pieces = to_json(app, chat.conversation_id) if kind == "json" else to_markdown(app, chat.conversation_id)
    headers = NO_STORE | {"Content-Disposition": disposition(f"chat-{request.path_params['chat']}.{kind}")}
    return StreamingResponse(pieces, media_type=TYPES[kind], headers=headers)


async def to_markdown(app: App, conversation_id: int | None) -> AsyncGenerator[str]:
    """Yield the chat as Markdown: a heading per message."""
    async for row in _messages(app, conversation_id):
        speaker = say("chat.you") if row.role == "user" else "Parley"
        yield f"### {speaker}, {row.created_at:%Y-%m-%d %H:%M} UTC\n\n{row.content.strip()}\n\n"


async def to_json(app: App, conversation_id: int | None) -> AsyncGenerator[str]:
    """Yield the chat as a JSON array of its messages."""
    begin = "["
    async for row in _messages(app, conversation_id):
        message = {"role": row.role, "content": row.content, "model": row.model_used, "at": row.created_at.isoformat()}
        yield begin + json.dumps(message, ensure_ascii=False)
        begin = ",\n"
    yield "[]" if begin == "[" else "]\n"


async def _messages(app: App, conversation_id: int | None) -> AsyncGenerator[Any]:
    last = {"turn_id": 0, "seq": -1}
    while True:
        # In steps: nobody who reads slowly holds a transaction.
        async with app.database.transaction() as session:
            parameters = {"conversation_id": conversation_id, "limit": STEP, **last}
            rows = (await session.execute(statements.export_messages, parameters)).all()
        for row in rows:
            if row.content.strip():
                yield row
        if len(rows) < STEP:
            return
        last = {"turn_id": rows[-1].turn_id, "seq": rows[-1].seq}
