"""`POST /v1/responses`, and reading and deleting its answers: the turn is that of a completion."""

import json
from typing import Any

from itsdangerous import BadSignature, Signer
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from adapters.web.api.bodies import max_body, read_json
from adapters.web.api.messages import accept_once
from adapters.web.api.openai import shapes
from adapters.web.api.openai.completions import (
    CANT_BE_PASSED_ON,
    KEY_HEADER,
    find_answer,
    require_model,
    stream_turn,
)
from adapters.web.api.openai.incoming import (
    ASKED_FOR_TOOLS,
    NOBODY,
    Thread,
    find_speaker,
    names_by_header,
    to_channel,
    to_event_id,
    to_incoming,
)
from adapters.web.api.openai.response_answers import ResponseHead, ResponseWriter, of_answer
from adapters.web.api.openai.response_bodies import ResponseRequest
from adapters.web.faults import Fault
from adapters.web.guard import app_of, with_scope
from adapters.web.tokens import PLATFORM
from agent.app import App
from agent.journal.responses import find_response
from shared.db.statements import load_statements
from shared.messages import EarlierMessage, Sender
from shared.text import MAX_ID, clean, clean_json, without_credentials_in

statements = load_statements(__file__)

PREFIX = "resp_"
MOST_EXCHANGES = 200
NOT_TAKEN = ("background", "context_management", "max_tool_calls", "moderation", "prompt", "top_logprobs")
NO_PREVIOUS = "There is no such response, or it was not stored; leave the field out to begin anew."
NOT_READY = "That response is still being written; go on from it when it is complete."
NO_RESPONSE = "There is no such response, or it was not stored."
TWO_CONVERSATIONS = "Name either a conversation or a previous response."


@with_scope("chat")
async def post_response(request: Request) -> Response:
    """Answer the user's last message, in the conversation to which the request belongs."""
    app = app_of(request)
    body = await read_json(request, ResponseRequest, max_body(app))
    refuse_unsupported(body)
    sender = find_speaker(request, body.user, body.safety_identifier)
    key = request.headers.get(KEY_HEADER)
    chat = body.to_chat()
    previous_id = None if body.previous_response_id is None else read_id(app, body.previous_response_id)
    thread = await find_thread(app, body, sender, key=key)
    try:
        message = await to_incoming(app, chat, sender, key=key, thread=thread)
    except Fault as fault:
        raise of_input(fault) from None
    accepted = await accept_once(app, message)
    metadata = clean_json(without_credentials_in(body.metadata or {}))
    if body.is_stored:
        parameters = {"inbox_id": accepted.inbox_id, "previous_id": previous_id, "metadata": json.dumps(metadata)}
        async with app.database.statement() as session:
            await session.execute(statements.store_response, parameters)
    head = ResponseHead(
        to_id(app, accepted.inbox_id),
        int(app.clock.now().timestamp()),
        f"msg_{accepted.inbox_id}",
        metadata=metadata,
        previous_id=body.previous_response_id,
        is_stored=body.is_stored,
        options=body.model_copy(update={"input": ""}),
    )
    is_streamed = body.stream
    # The files, 40 MB perhaps, are stored, and the turn may take minutes.
    del body, chat
    if is_streamed:
        return await stream_turn(request, accepted, message, writer=ResponseWriter(head))
    answer, headers = await find_answer(request, accepted, message)
    return JSONResponse(of_answer(head, answer), headers=headers)


@with_scope("read")
async def get_response(request: Request) -> Response:
    """Return a stored response, also while it is being written."""
    app = app_of(request)
    inbox_id, row = await find_stored(app, request)
    async with app.database.statement() as session:
        answer = await find_response(session, inbox_id)
    head = ResponseHead(
        to_id(app, inbox_id),
        int(row.created_at.timestamp()),
        f"msg_{inbox_id}",
        metadata=row.metadata,
        previous_id=None if row.previous_id is None else to_id(app, row.previous_id),
    )
    return JSONResponse(of_answer(head, answer))


@with_scope("chat")
async def delete_response(request: Request) -> Response:
    """Delete a stored response: it can't be read or gone on from any more. What is remembered of it stays."""
    app = app_of(request)
    inbox_id, _ = await find_stored(app, request)
    async with app.database.statement() as session:
        await session.execute(statements.delete_response, {"inbox_id": inbox_id})
    deleted: shapes.DeletedResponse = {"id": to_id(app, inbox_id), "object": "response", "deleted": True}
    return JSONResponse(deleted)


async def find_stored(app: App, request: Request) -> tuple[int, Any]:
    """Return the message and the row of a stored response; raises a 404, also for that of another person.

    A request without a name comes from a program with the token, which may speak for anybody; one with an empty name is
    nobody's.
    """
    inbox_id = read_id(app, request.path_params["id"])
    user = request.query_params.get("user")
    sender = find_speaker(request, clean(user or ""))
    if sender is None and (user is not None or names_by_header(request.headers)):
        sender = Sender(PLATFORM, NOBODY)
    async with app.database.statement() as session:
        row = (await session.execute(statements.find_stored_response, {"inbox_id": inbox_id})).one_or_none()
    if row is None or (sender is not None and not is_of(row, sender)):
        raise Fault(404, "not_found", NO_RESPONSE, field="response_id")
    return inbox_id, row


async def find_thread(app: App, body: ResponseRequest, sender: Sender | None, *, key: str | None) -> Thread:
    """Return where the request goes on; raises a 400 for a previous response that is not there, or another person's."""
    name = body.conversation_id
    if body.previous_response_id is None:
        if sender is None:
            return Thread(NOBODY)
        # What is stored is a conversation, of which each has a place of its own.
        channel = to_channel(sender, name or to_event_id(sender, key))
        return Thread(channel, is_remembered=name is not None or body.is_stored)
    if body.conversation is not None:
        raise Fault(400, "invalid_request", TWO_CONVERSATIONS, field="conversation")
    event_id = "" if sender is None else to_event_id(sender, key)
    previous_id = read_id(app, body.previous_response_id)
    parameters = {"inbox_id": previous_id, "event_id": event_id}
    async with app.database.statement() as session:
        row = (await session.execute(statements.find_previous_response, parameters)).one_or_none()
    if row is None or not is_of(row, sender or Sender(PLATFORM, NOBODY)):
        raise Fault(400, "previous_response_not_found", NO_PREVIOUS, field="previous_response_id")
    if not row.is_answered:
        raise Fault(400, "invalid_request", NOT_READY, field="previous_response_id")
    if sender is not None and row.known_channel is None and not row.is_followed:
        return Thread(row.platform_channel_id)
    if row.known_channel == row.platform_channel_id:
        return Thread(row.platform_channel_id)
    # Of nobody there is no place to go on in; and where the conversation has gone on since, this is a branch of it.
    history = await list_history(app, previous_id)
    return Thread(NOBODY if sender is None else to_channel(sender, event_id), history)


async def list_history(app: App, inbox_id: int) -> tuple[EarlierMessage, ...]:
    """Return what was said in the responses that lead to this one, and in it."""
    parameters = {"inbox_id": inbox_id, "most": MOST_EXCHANGES}
    async with app.database.statement() as session:
        rows = (await session.execute(statements.list_exchanges, parameters)).all()
    history: list[EarlierMessage] = []
    for row in rows:
        history.append(EarlierMessage("user", row.question))
        if row.answer:
            history.append(EarlierMessage("assistant", row.answer))
    return tuple(history)


def is_of(row: Any, sender: Sender) -> bool:
    """Return whether a stored response is this person's."""
    return (row.platform, row.platform_user_id) == (sender.platform, sender.platform_user_id)


def to_id(app: App, inbox_id: int) -> str:
    """Return the id of a response, which nobody can guess."""
    return PREFIX + _signer(app).sign(str(inbox_id)).decode()


def read_id(app: App, response_id: str) -> int:
    """Return the message that a response answers; 0 for an id that is none of ours."""
    try:
        number = int(_signer(app).unsign(response_id.removeprefix(PREFIX)))
    except (BadSignature, ValueError):
        return 0
    return number if number <= MAX_ID else 0


def _signer(app: App) -> Signer:
    return Signer(app.secrets.signing_keys, salt="parley-web-response")


def of_input(fault: Fault) -> Fault:
    """Return a fault of the messages as one of the input, as which the client has sent them."""
    if fault.field is None or not fault.field.startswith("messages"):
        return fault
    return Fault(fault.status, fault.code, fault.message.replace(fault.field, "input", 1), field="input")


def refuse_unsupported(body: ResponseRequest) -> None:
    """Refuse unsupported options that change the meaning of the answer; other unknown options are ignored."""
    if body.tools:
        raise Fault(400, "unsupported_parameter", ASKED_FOR_TOOLS, field="tools")
    for field in NOT_TAKEN:
        if getattr(body, field):
            raise Fault(400, "unsupported_parameter", CANT_BE_PASSED_ON, field=field)
    require_model(body.model)
