"""The endpoints of the chat page: messages with files, their events after a reconnect, stop, history."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated
from urllib.parse import quote

from pydantic import Field, StringConstraints, ValidationError
from python_multipart.multipart import parse_options_header
from sqlalchemy import select
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from adapters.web.api import sse
from adapters.web.api.bodies import (
    MAX_ATTACHMENTS,
    MAX_JSON_BYTES,
    Closed,
    Text,
    capped,
    max_body,
    read_json,
    require_type,
)
from adapters.web.api.messages import accept_once, number
from adapters.web.api.uploads import store_uploads
from adapters.web.faults import Fault, from_validation, invalid
from adapters.web.guard import app_of
from adapters.web.page import history
from adapters.web.page.sessions import session_of, with_session
from agent import commands
from agent.app import App
from agent.journal.steps import Event
from agent.live.channels import request_stop
from agent.turn.confirmations.decisions import read_word
from shared.messages import Decision, IncomingMessage, Place, Sender
from shared.models import InboxMessage
from shared.models.base import MAX_ID

PLATFORM = "web"
ENTER_HERE = commands.CommandReply("Enter it here; it is kept encrypted, and no model sees it.", is_private=True)

# Chosen by the page; these become parts of a channel and of an event id.
Key = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class Typed(Closed):
    """The fields of `POST /chat/messages`; files are sent in the same form."""

    chat: Key
    event_id: Key
    content: Text = ""
    confirmation: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None

    @property
    def decision(self) -> Decision | None:
        """Return the decision of a click on a button; the word is in the text, the id in its own field."""
        approved = read_word(self.content)
        return Decision(self.confirmation, approved) if self.confirmation and approved is not None else None


class Stop(Closed):
    """The body of `POST /chat/stop`."""

    chat: Key


def place_of(who: str, chat: str) -> Place:
    """Return the place of a chat; it contains the web user's id, so nobody else can name it."""
    return Place(PLATFORM, None, f"{to_prefix(who)}/{chat}", is_direct=True)


def to_prefix(who: str) -> str:
    """Return the web user's id as the first part of a channel or an event id: no id is the beginning of another."""
    return quote(who, safe="")


@with_session
async def post_chat_message(request: Request) -> Response:
    """Accept a message from the page and stream the events of its turn."""
    app, who = app_of(request), session_of(request)
    require_type(request, "multipart/form-data")
    # Some of Python's encodings raise what no parser expects, and some take time that grows with the square of a field.
    if parse_options_header(request.headers["content-type"])[1].get(b"charset", b"utf-8").lower() != b"utf-8":
        raise Fault(415, "unsupported_media_type", "Send the form in UTF-8.")
    parser = MultiPartParser(
        request.headers,
        capped(request, max_body(app)),
        max_files=MAX_ATTACHMENTS,
        max_fields=10,
        max_part_size=MAX_JSON_BYTES,
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise Fault(400, "invalid_form", error.message) from None
    try:
        uploads = [value for key, value in form.multi_items() if key == "files" and isinstance(value, UploadFile)]
        fields = {key: value for key, value in form.multi_items() if isinstance(value, str)}
        try:
            body = Typed.model_validate(fields)
        except ValidationError as error:
            raise from_validation(error) from None
        if not body.content.strip() and not uploads:
            raise invalid("content", "it may be empty only when there are files")
        sender, place = Sender(PLATFORM, who), place_of(who, body.chat)
        if (credential := commands.find_credential_form(body.content)) is not None:
            return sse.follow(sse.command_events(ENTER_HERE, credential))
        if (reply := await commands.answer(app, sender, place, text=body.content)) is not None:
            return sse.follow(sse.command_events(reply))
        message = IncomingMessage(
            adapter="web",
            sender=sender,
            place=place,
            event_id=f"{to_prefix(who)}:{body.event_id}",
            content=body.content,
            sent_at=None,
            attachments=await store_uploads(app, uploads),
            wants_stream=True,
            decision=body.decision,
        )
        accepted = await accept_once(app, message)
    finally:
        await form.close()
    return sse.follow(app.events.follow(accepted.inbox_id))


@with_session
async def get_chat_events(request: Request) -> Response:
    """Stream the events of a message's turn again, after a lost connection or a reload."""
    app, who = app_of(request), session_of(request)
    event_id = f"{to_prefix(who)}:{request.query_params.get('event_id', '')}"
    query = select(InboxMessage.id).where(InboxMessage.platform == PLATFORM, InboxMessage.platform_event_id == event_id)
    async with app.database.transaction() as session:
        inbox_id = await session.scalar(query)
    if inbox_id is None:
        raise Fault(404, "not_found", "This message did not arrive; please send it again.")
    return sse.follow(app.events.follow(inbox_id))


@with_session
async def get_due(request: Request) -> Response:
    """Stream what scheduled jobs say in a chat from now on, and since the turn `after`; it ends with the server."""
    app, who = app_of(request), session_of(request)
    place = place_of(who, request.query_params.get("chat", ""))
    after = number(request.query_params.get("after", "0"), "after", MAX_ID)
    return sse.follow(_due_events(app, place, after=after, closing=request.app.state.closing))


async def _due_events(app: App, place: Place, *, after: int, closing: asyncio.Event) -> AsyncGenerator[Event]:
    inbox_ids: set[int] = set()
    async with aclosing(app.events.due_in(place.key)) as looks:
        while True:
            looking = asyncio.ensure_future(anext(looks))
            closing_task = asyncio.ensure_future(closing.wait())
            try:
                await asyncio.wait({looking, closing_task}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                looking.cancel()
                closing_task.cancel()
                await asyncio.gather(looking, closing_task, return_exceptions=True)
            if closing.is_set():
                # The server is about to end: it waits for its responses.
                return
            async for event in _new_due_events(app, place, after=after, inbox_ids=inbox_ids):
                yield event


async def _new_due_events(app: App, place: Place, *, after: int, inbox_ids: set[int]) -> AsyncGenerator[Event]:
    async with app.database.transaction() as session:
        new_ids = [inbox_id for inbox_id in await history.list_due(session, place, after) if inbox_id not in inbox_ids]
    for inbox_id in new_ids:
        inbox_ids.add(inbox_id)
        async for event in app.events.follow(inbox_id):
            yield event


@with_session
async def post_chat_stop(request: Request) -> Response:
    """Stop the running turn of a chat."""
    app, who = app_of(request), session_of(request)
    stop = await read_json(request, Stop, MAX_JSON_BYTES)
    return JSONResponse({"stopped": await request_stop(app.database, place_of(who, stop.chat), None)})


@with_session
async def get_history(request: Request) -> Response:
    """Return this person's chats, and the events of one of them."""
    who, chat = session_of(request), request.query_params.get("chat", "")
    async with app_of(request).database.transaction() as session:
        chats = await history.list_chats(session, PLATFORM, f"{to_prefix(who)}/")
        place = place_of(who, chat)
        events = await history.list_recent_events(session, place)
        open_messages = await history.list_open_messages(session, place, f"{to_prefix(who)}:")
    return JSONResponse(
        {"chats": chats, "events": events, "open": open_messages}, headers={"Cache-Control": "no-store"}
    )
