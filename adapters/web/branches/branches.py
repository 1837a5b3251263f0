"""The endpoints of the page for branches of a chat: begun by saying a message otherwise or again, and chosen."""

from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from adapters.web.api.bodies import MAX_JSON_BYTES, Closed, Text, read_json
from adapters.web.api.messages import number
from adapters.web.faults import Fault, invalid
from adapters.web.guard import app_of
from adapters.web.login.sessions import session_of, with_session
from adapters.web.page.chat import PLATFORM, Key, place_in, to_prefix
from adapters.web.page.chats import BUSY, NO_STORE
from adapters.web.page.transcript import to_branch
from adapters.web.texts import say
from agent.commands import match_command
from agent.journal.files import FILES_HEADING
from agent.live.channels import DUE
from agent.queue.inbox import accept_within
from shared.db.statements import load_statements
from shared.errors import EventIdInUse
from shared.messages import IncomingMessage, Sender
from shared.text import MAX_ID

statements = load_statements(__file__)

NO_TURN = say("chat.no_message")


class Branch(Closed):
    """The body of `POST /page/chats/{chat}/branches`; without a text the message of the turn is said again."""

    turn_id: Annotated[int, Field(strict=True, ge=1, le=MAX_ID)]
    event_id: Key
    content: Text | None = None


class Choice(Closed):
    """The body of `PUT /page/chats/{chat}/branch`."""

    turn_id: Annotated[int, Field(strict=True, ge=1, le=MAX_ID)]


@with_session
async def begin_branch(request: Request) -> Response:
    """Say something in place of a turn: the chat goes on with it, and the turn stays in a branch of its own."""
    app, who, place = app_of(request), session_of(request), place_in(request)
    branch = await read_json(request, Branch, MAX_JSON_BYTES)
    if branch.content is not None and not branch.content.strip():
        raise invalid("content", say("chat.empty"))
    if branch.content is not None and match_command(branch.content) is not None:
        raise invalid("content", say("chat.no_command_here"))
    event_id = f"{to_prefix(who)}:{branch.event_id}"
    parameters = {"channel": place.channel, "place_key": place.key, "event_id": event_id, "turn_id": branch.turn_id}
    # The branch and its message in one transaction: no crash leaves a chat that ends before what was said.
    async with app.database.transaction() as session:
        row = (await session.execute(statements.begin_branch, parameters)).one()
        refuse(row.outcome)
        if row.outcome == "begun":
            message = IncomingMessage(
                adapter="web",
                sender=Sender(PLATFORM, who),
                place=place,
                event_id=event_id,
                content=to_content(branch.content, row.content or ""),
                sent_at=None,
                wants_stream=True,
                again_of=row.again_of,
            )
            (accepted,) = await accept_within(session, message)
            if not accepted.is_new:
                # In another chat; without its message the branch would be a chat that ends before it.
                raise EventIdInUse
    app.events.notifier.send(DUE, place.key)
    return JSONResponse({}, headers=NO_STORE)


def to_content(content: str | None, original: str) -> str:
    """Return the text in place of a message, with the files of that message."""
    if content is None:
        return original
    _, heading, files = original.rpartition(FILES_HEADING)
    return f"{content.strip()}\n\n{heading}{files}" if heading else content


@with_session
async def get_branch(request: Request) -> Response:
    """Return which of how many a turn is that stand in place of each other, once it has ended; null: there are none."""
    place, turn_id = place_in(request), number(request.query_params.get("turn", ""), "turn", MAX_ID)
    async with app_of(request).database.transaction() as session:
        parameters = {"channel": place.channel, "turn_id": turn_id}
        row = (await session.execute(statements.find_branch, parameters)).one_or_none()
    return JSONResponse({"branch": to_branch(row) if row else None}, headers=NO_STORE)


@with_session
async def choose_branch(request: Request) -> Response:
    """Show the branch of a turn instead of the one that is shown."""
    app, place = app_of(request), place_in(request)
    choice = await read_json(request, Choice, MAX_JSON_BYTES)
    parameters = {"channel": place.channel, "place_key": place.key, "turn_id": choice.turn_id}
    async with app.database.transaction() as session:
        refuse((await session.execute(statements.show_branch, parameters)).scalar_one())
    app.events.notifier.send(DUE, place.key)
    return JSONResponse({}, headers=NO_STORE)


def refuse(outcome: str) -> None:
    """Raise the fault for a branch that is not there, or in a chat in which an answer is being written."""
    if outcome == "missing":
        raise Fault(404, "not_found", NO_TURN)
    if outcome == "busy":
        raise Fault(409, "busy", BUSY)
