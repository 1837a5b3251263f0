"""The endpoints of the chat page for what is said: messages with files, their events, what arrives, stop."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any
from urllib.parse import quote

from msgspec import Struct
from pydantic import Field, Json, StringConstraints, ValidationError
from sqlalchemy import select
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from adapters.web.api import sse
from adapters.web.api.bodies import MAX_ATTACHMENTS, MAX_JSON_BYTES, Closed, Text, max_body, read_json
from adapters.web.api.messages import accept_once, number
from adapters.web.api.uploads import parse_multipart, store_uploads
from adapters.web.faults import Fault, from_validation, invalid
from adapters.web.guard import app_of
from adapters.web.login.sessions import WebSession, session_in, session_of, with_session
from adapters.web.page import history
from adapters.web.page.choices import Choices, choose_first
from adapters.web.page.transcript import to_replies
from adapters.web.texts import say
from agent import commands
from agent.app import App
from agent.journal.steps import Event
from agent.live.channels import DUE, request_stop, to_list_key
from agent.turn.confirmations.decisions import read_word
from shared.messages import Decision, IncomingMessage, Place, Sender
from shared.models import InboxMessage
from shared.text import MAX_ID

PLATFORM = "web"
ENTER_HERE = commands.CommandReply(say("chat.enter_here"), is_private=True)

# Chosen by the page; these become parts of a channel and of an event id.
KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
Key = Annotated[str, StringConstraints(strict=True, pattern=rf"^{KEY.pattern}$")]


class Typed(Closed):
    """The fields of `POST /chat/messages`; files are sent in the same form.

    `choices` come with the first message of a chat.
    """

    chat: Key
    event_id: Key
    content: Text = ""
    confirmation: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None
    choices: Json[Choices] | None = None

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


def place_in(request: Request) -> Place:
    """Return the place of the chat that the address names; one that no page can have made is not there."""
    chat = request.path_params["chat"]
    if KEY.fullmatch(chat) is None:
        raise Fault(404, "not_found", say("chat.no_chat"))
    return place_of(session_of(request), chat)


def to_prefix(who: str) -> str:
    """Return the web user's id as the first part of a channel or an event id: no id is the beginning of another."""
    return quote(who, safe="")


@with_session
async def post_chat_message(request: Request) -> Response:
    """Accept a message from the page and stream the events of its turn."""
    app, who = app_of(request), session_of(request)
    async with parse_multipart(request, max_body(app), max_files=MAX_ATTACHMENTS) as form:
        uploads = [value for key, value in form.multi_items() if key == "files" and isinstance(value, UploadFile)]
        fields = {key: value for key, value in form.multi_items() if isinstance(value, str)}
        try:
            body = Typed.model_validate(fields)
        except ValidationError as error:
            raise from_validation(error) from None
        if not body.content.strip() and not uploads:
            raise invalid("content", say("chat.empty_without_files"))
        require_fresh_login_to_erase(request, body.content)
        sender, place = Sender(PLATFORM, who), place_of(who, body.chat)
        if (answer := await _answer_command(app, sender, place, body=body)) is not None:
            return answer
        await choose_first(app, sender, place, choices=body.choices)
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
    # Other windows that show this chat.
    app.events.notifier.send(DUE, place.key)
    return sse.follow(app.events.follow(accepted.inbox_id))


def require_fresh_login_to_erase(request: Request, text: str) -> None:
    """Refuse the command that can't be taken back to a session that may be somebody else's by now."""
    if is_command(text, "erase"):
        session_in(request).require_fresh_login()


def is_command(text: str, name: str) -> bool:
    """Return whether a text is the command with this name, however it is written."""
    line = commands.match_command(text)
    return line is not None and line[1].lower() == name


async def _answer_command(app: App, sender: Sender, place: Place, *, body: Typed) -> Response | None:
    """Return the stream with the answer to a command, which is kept with the chat; None for any other text."""
    if (credential := commands.find_credential_form(body.content)) is not None:
        return sse.follow(sse.command_events(ENTER_HERE, credential))
    reply = await commands.answer(app, sender, place, text=body.content)
    if reply is None:
        return None
    async with app.database.transaction() as session:
        await history.keep_reply(
            session, place, who=sender.platform_user_id, event_id=body.event_id, line=body.content, reply=reply
        )
    app.events.notifier.send(DUE, place.key)
    return sse.follow(sse.command_events(reply))


@with_session
async def get_chat_events(request: Request) -> Response:
    """Stream the events of a message's turn again, after a lost connection or a reload."""
    app, who = app_of(request), session_of(request)
    event_id = f"{to_prefix(who)}:{request.query_params.get('event_id', '')}"
    query = select(InboxMessage.id).where(InboxMessage.platform == PLATFORM, InboxMessage.platform_event_id == event_id)
    async with app.database.transaction() as session:
        inbox_id = await session.scalar(query)
    if inbox_id is None:
        raise Fault(404, "not_found", say("chat.not_arrived"))
    return sse.follow(app.events.follow(inbox_id, is_late=True))


@with_session
async def get_message_events(request: Request) -> Response:
    """Stream the events of the turn of one message of a chat: what it has done, its text so far, and what follows."""
    app, place = app_of(request), place_in(request)
    message = number(request.path_params["message"], "message", MAX_ID)
    async with app.database.transaction() as session:
        inbox_id = await history.find_message(session, place, message)
    if inbox_id is None:
        raise Fault(404, "not_found", say("chat.no_message"))
    return sse.follow(app.events.follow(inbox_id, is_late=True))


@with_session
async def get_arrivals(request: Request) -> Response:
    """Stream what arrives in a chat, from other windows and scheduled jobs: messages and replies to commands.

    Begins behind the message `after` or the turn `after_turn`, and the reply `after_reply`; ends with the server, with
    the session, and when another branch than `branch` is chosen, which it tells of. It also tells of each of the
    person's chats that is named behind `after_title`, and of the answers in the others behind `after_answer`.
    """
    after, after_turn, after_reply, after_title = (
        number(request.query_params.get(name, "0"), name, MAX_ID)
        for name in ("after", "after_turn", "after_reply", "after_title")
    )
    branch = request.query_params.get("branch", "")
    position = Position(message=after, turn=after_turn, reply=after_reply, title=after_title, branch=branch)
    if "after_answer" in request.query_params:
        position.answer = number(request.query_params["after_answer"], "after_answer", MAX_ID)
    arrivals = _arrivals(app_of(request), session_in(request), place_in(request), position=position)
    return sse.follow(_until(request.app.state.closing, arrivals))


class Position(Struct):
    """The newest message, turn, reply to a command and title that a window of the page has shown, and the branch.

    `answer` is the moment of the newest answer elsewhere, None for a window that tells of none.
    """

    message: int
    turn: int
    reply: int
    title: int
    branch: str
    answer: int | None = None
    is_over: bool = False


async def _arrivals(app: App, web_session: WebSession, place: Place, *, position: Position) -> AsyncGenerator[Event]:
    async with aclosing(app.events.due_in(place.key, to_list_key(place))) as looks:
        async for _ in looks:
            for event in await _look(app, web_session, place, position=position):
                yield event
            if position.is_over:
                return


async def _look(app: App, web_session: WebSession, place: Place, *, position: Position) -> list[Event]:
    """Return what has arrived since, and note it as seen, or that the session or the branch has ended."""
    who = web_session.account
    async with app.database.transaction() as session:
        rows = await history.list_new_replies(session, place, position.reply, session_id=web_session.id)
        if rows is None:
            position.is_over = True
            return []
        branch, titles, _ = await history.find_changes(session, who, place, after_title=position.title)
        messages = await history.list_arrivals(
            session, place, f"{to_prefix(who)}:", after=position.message, after_turn=position.turn
        )
        replies = await to_replies(session, app, who, rows=rows)
        answers = [] if position.answer is None else await history.list_answers(session, place, position.answer)
    if branch != position.branch:
        position.is_over = True
        return [Event(0, 0, name="branch", payload={"branch": branch})]
    position.message = max([position.message, *(message["message"] for message in messages)])
    position.reply = max([position.reply, *(reply["reply_id"] for reply in replies)])
    arrivals = [Event(message["turn_id"] or 0, 0, name="arrival", payload=message) for message in messages]
    arrivals += [Event(0, 0, name="reply", payload=reply) for reply in replies]
    for chat, title, position.title in titles:
        payload = {"chat": chat, "title": title, "newest_title": position.title}
        arrivals.append(Event(0, 0, name="title", payload=payload))
    for answer in answers:
        position.answer = answer["moment"]
        arrivals.append(Event(0, 0, name="answer", payload=answer))
    return arrivals


async def _until(closing: asyncio.Event, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
    """Yield the events until the server is about to end: it waits for its responses."""
    closing_task = asyncio.ensure_future(closing.wait())
    try:
        while (event := await _next_unless(closing_task, events)) is not None:
            yield event
    finally:
        closing_task.cancel()
        await events.aclose()


async def _next_unless(closing_task: asyncio.Future[Any], events: AsyncGenerator[Event]) -> Event | None:
    looking = asyncio.ensure_future(anext(events, None))
    try:
        await asyncio.wait({looking, closing_task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not looking.done():
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
    return None if closing_task.done() else looking.result()


@with_session
async def post_chat_stop(request: Request) -> Response:
    """Stop the running turn of a chat."""
    app, who = app_of(request), session_of(request)
    stop = await read_json(request, Stop, MAX_JSON_BYTES)
    return JSONResponse({"stopped": await request_stop(app.database, place_of(who, stop.chat), None)})
