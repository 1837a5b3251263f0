"""`POST /v1/messages` and the events of a conversation: the agent's own HTTP API."""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

from msgspec.structs import replace
from pydantic import TypeAdapter
from sqlalchemy import select
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive

from adapters.web.api import sse
from adapters.web.api.bodies import ADAPTER, SentMessage, max_body, read_json, require_place
from adapters.web.api.uploads import discard, store_sent
from adapters.web.faults import Fault, invalid
from adapters.web.guard import APP, app_of, apps_of, person_of, with_scope
from adapters.web.tokens import Person
from agent import commands
from agent.app import App
from agent.journal.responses import find_response
from agent.queue.abandonment import cancel_if_abandoned
from agent.queue.inbox import Accepted
from shared.errors import EventIdInUse, ServerMoved
from shared.messages import AgentResponse, IncomingMessage
from shared.models import Conversation, Turn, TurnEvent
from shared.text import MAX_ID, to_command_line

RESPONSE = TypeAdapter(AgentResponse)
MAX_PAGE = 1000
DIRECT_ALONE = "This token speaks for one person, in direct messages: leave platform_server_id and is_direct out."
ALONE = "This is for you alone: please ask me in a direct message."


def wants_events(request: Request) -> bool:
    """Return whether the client accepts server-sent events."""
    return "text/event-stream" in request.headers.get("accept", "")


@with_scope("chat")
async def post_message(request: Request) -> Response:
    """Accept a message; respond with the AgentResponse, or stream the events of its turn."""
    app, cells = app_of(request), request.app.state.cells
    body = await read_json(request, SentMessage, max_body(app))
    person = person_of(request)
    if person is not None:
        body = as_person(body, person)
    if cells is None:
        return await answer_message(request, body, app)

    event_id = body.platform_event_id or str(uuid4())

    async def answer_in(cell: App) -> Response:
        request.scope[APP] = cell
        return await answer_message(request, body, cell, event_id)

    is_command = body.decision is None and commands.match_command(body.content) is not None
    response: Response = await cells.use(body.place, answer_in, is_message=not is_command)
    return response


async def answer_message(request: Request, body: SentMessage, app: App, event_id: str | None = None) -> Response:
    """Respond to a message with the app of its cell; `event_id`: its own, also in the cell that is asked next."""
    is_stream = wants_events(request)
    # The text beside a decision is never a command: the decision would be lost.
    reply = None
    if body.decision is None and to_command_line(body.content) is not None:
        reply = await commands.answer(app, body.sender, body.place, text=body.content, adapter=ADAPTER)
    if reply is not None:
        if reply.files and not body.place.is_direct:
            # Where the caller shows the reply, others read it.
            reply = replace(reply, text=ALONE, files=())
        if is_stream:
            return sse.follow(sse.command_events(reply))
        return to_json(AgentResponse(0, reply.text, files=reply.files))
    files = await store_sent(app, body.attachments) if body.attachments else ()
    message = body.to_incoming(files, wants_stream=is_stream, credentials=app.credentials)
    message = replace(message, event_id=event_id or message.event_id)
    accepted = await accept_once(app, message)
    is_named = body.platform_event_id is not None
    # They are stored, have 40 MB perhaps, and the turn may take minutes.
    body.attachments.clear()
    if is_stream:
        on_closed = partial(cancel_request, request, accepted, message, is_named=is_named)
        return sse.follow(app.events.follow(accepted.inbox_id), on_closed)
    return to_json(await answer_to(request, accepted, message, is_named=is_named))


def as_person(body: SentMessage, person: Person) -> SentMessage:
    """Return the message as its person may write it: in a direct conversation of their own, with an id of their own.

    What the body names else would be somebody's: a channel with its history, a direct message, an event.
    """
    person.require(body.sender)
    if not body.place.is_direct or body.platform_server_id is not None:
        raise Fault(403, "forbidden", DIRECT_ALONE)
    own = quote(person.account, safe="")
    fields: dict[str, Any] = {
        "platform": person.sender.platform,
        "platform_user_id": person.account,
        "platform_username": None,
        "platform_channel_id": f"{own}/{body.platform_channel_id}",
        "platform_event_id": f"{own}:{body.platform_event_id}" if body.platform_event_id is not None else None,
    }
    own_body = body.model_copy(update=fields)
    require_place(own_body.place)
    return own_body


async def accept_once(app: App, message: IncomingMessage) -> Accepted:
    """Accept the message; discard the files of a duplicate, or of one that is not stored here."""
    try:
        accepted = await app.inbox.accept(message)
    except (EventIdInUse, ServerMoved):
        await discard(app, message.attachments)
        raise
    if not accepted.is_new:
        await discard(app, message.attachments)
    return accepted


async def answer_to(request: Request, accepted: Accepted, message: IncomingMessage, *, is_named: bool) -> AgentResponse:
    """Return the answer to a message; raises `ClientDisconnect` if the client disconnects.

    That ends the turn, unless the client named the event (`is_named`) and can come back for the answer.
    """
    app = app_of(request)
    if not accepted.is_new:
        # A duplicate may have been answered long ago, by another process.
        async with app.database.transaction() as session:
            answer = await find_response(session, accepted.inbox_id)
        if answer is not None:
            return answer
    try:
        answer = await unless_disconnected(request, app.events.response(accepted.inbox_id))
    except ClientDisconnect:
        await cancel_request(request, accepted, message, is_named=is_named)
        raise
    if answer.error == "erased" and (cells := request.app.state.cells) is not None:
        # Its server went back to another cell with all that waited, and there it is known.
        await cells.check(message.place, app)
    return answer


def to_json(response: AgentResponse) -> Response:
    """Return a turn's answer; `turn_id` 0 stands for a command, which runs no turn.

    `confirmation` is present only if the answer asks for one, and `action` only in planner mode.
    """
    left_out = {name for name in ("confirmation", "action") if getattr(response, name) is None}
    return Response(RESPONSE.dump_json(response, exclude=left_out), media_type="application/json")


@with_scope("read")
async def get_events(request: Request) -> Response:
    """Return the stored events of a conversation with ids above `after`, oldest first."""
    conversation_id = number(request.path_params["id"], "id", MAX_ID)
    after = number(request.query_params.get("after", "0"), "after", MAX_ID)
    limit = number(request.query_params.get("limit", "500"), "limit", MAX_PAGE)
    person = person_of(request)
    # Tokens of people are of the first cell, where direct messages are at home.
    for app in apps_of(request) if person is None else (app_of(request),):
        events = await _list_events(app, conversation_id, after, limit=limit, person=person)
        if events is not None:
            return JSONResponse({"events": events})
    raise Fault(404, "not_found", "There is no conversation with that id.")


async def _list_events(
    app: App, conversation_id: int, after: int, *, limit: int, person: Person | None
) -> list[dict[str, Any]] | None:
    # None: there is no such conversation, or none that this person may read.
    async with app.database.transaction() as session:
        conversation = await session.get(Conversation, conversation_id)
        if conversation is None or not may_read(person, conversation):
            return None
        query = (
            select(TurnEvent.id, TurnEvent.turn_id, TurnEvent.seq, TurnEvent.name, TurnEvent.payload)
            .join(Turn, Turn.id == TurnEvent.turn_id)
            .where(Turn.conversation_id == conversation_id, TurnEvent.id > after)
            .order_by(TurnEvent.id)
            .limit(limit)
        )
        if person is not None:
            # A program may have let others write to the same place.
            query = query.where(Turn.user_id == person.user_id)
        rows = (await session.execute(query)).all()
    return [row._asdict() for row in rows]


def may_read(person: Person | None, conversation: Conversation) -> bool:
    """Return whether a person's token may read a conversation: their own direct ones alone."""
    return person is None or (conversation.is_direct and conversation.user_id == person.user_id)


def number(text: str, field: str, highest: int) -> int:
    """Return a whole number from the query; raises the 400 that names the field."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > highest:
        raise invalid(field, f"write a whole number from 0 to {highest}")
    return int(text)


Result = TypeVar("Result")


# `true`: closing the request ends the turn although the request names its event, so that it could be asked again.
CANCEL_ON_CLOSE = "cancel-on-close"


async def unless_disconnected(request: Request, answer: Awaitable[Result]) -> Result:
    """Return the answer; raises `ClientDisconnect` if the client closes the connection before."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a request is answered in a task")
    watching = asyncio.create_task(_until_disconnected(request.receive))
    is_waiting = True

    def on_disconnected(watching: "asyncio.Task[None]") -> None:
        if is_waiting and not watching.cancelled():
            task.cancel()

    # A callback is cheaper than waiting for two tasks, and this runs for every message.
    watching.add_done_callback(on_disconnected)
    try:
        return await answer
    except asyncio.CancelledError:
        if not watching.done():
            raise
        task.uncancel()
        raise ClientDisconnect from None
    finally:
        is_waiting = False
        watching.cancel()


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def cancel_request(request: Request, accepted: Accepted, message: IncomingMessage, *, is_named: bool) -> None:
    """Cancel the message of a client that disconnected; a message that is withdrawn loses its files, too.

    A client that named the event can come back for its answer: then the turn goes on, unless the client asked for its
    end.
    """
    if is_named and request.headers.get(CANCEL_ON_CLOSE, "").lower() != "true":
        return
    app = app_of(request)
    if await cancel_if_abandoned(app.database, app.events, accepted.inbox_id):
        await discard(app, message.attachments)
