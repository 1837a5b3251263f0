"""Credentials that a person enters on the chat page, in a form that hides them."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from adapters.web.api.bodies import MAX_JSON_BYTES, Closed, Credential, CredentialName, read_json
from adapters.web.guard import app_of
from adapters.web.login.sessions import session_of, with_session
from adapters.web.page.chat import PLATFORM
from agent import commands
from shared.messages import Sender


class Entered(Closed):
    """The body of `POST /chat/credentials`."""

    name: CredentialName
    value: Credential


@with_session
async def post_credential(request: Request) -> Response:
    """Keep a credential."""
    app, who = app_of(request), session_of(request)
    entered = await read_json(request, Entered, MAX_JSON_BYTES)
    confirmation = await commands.keep_credential(app, Sender(PLATFORM, who), entered.name, value=entered.value)
    return JSONResponse({"content": confirmation}, headers={"Cache-Control": "no-store"})
