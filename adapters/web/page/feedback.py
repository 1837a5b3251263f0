"""`PUT /page/chats/{chat}/turns/{turn}/feedback`: thumbs up or down for an answer, with a comment."""

from typing import Annotated, Literal

from pydantic import AfterValidator, StringConstraints
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from adapters.web.api.bodies import MAX_JSON_BYTES, Closed, read_json
from adapters.web.api.messages import number
from adapters.web.faults import Fault
from adapters.web.guard import app_of
from adapters.web.login.sessions import with_session
from adapters.web.page.chat import place_in
from adapters.web.page.chats import NO_STORE
from adapters.web.texts import say
from shared.db.statements import load_statements
from shared.text import MAX_ID, clean

statements = load_statements(__file__)


class Vote(Closed):
    """The body: what the person thinks, 0 to take it back, and why."""

    score: Literal[-1, 0, 1]
    comment: Annotated[str, StringConstraints(strict=True, max_length=2000), AfterValidator(clean)] = ""


@with_session
async def put_feedback(request: Request) -> Response:
    """Store what the person thinks of an answer; the last vote counts."""
    place, turn_id = place_in(request), number(request.path_params["turn"], "turn", MAX_ID)
    vote = await read_json(request, Vote, MAX_JSON_BYTES)
    parameters = {"turn_id": turn_id, "channel": place.channel} | vote.model_dump()
    async with app_of(request).database.transaction() as session:
        if (await session.execute(statements.vote, parameters)).one_or_none() is None:
            raise Fault(404, "not_found", say("chat.no_answer"))
    return JSONResponse({}, headers=NO_STORE)
