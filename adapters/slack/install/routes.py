"""The two routes of the OAuth installation; the library is imported with the first request."""

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adapters.slack.install import INSTALL, REDIRECT
from adapters.slack.settings import SlackSettings
from adapters.web.faults import HTTP_SENTENCES, Fault

if TYPE_CHECKING:
    from agent.app import App


def routes(settings: SlackSettings) -> list[Route]:
    """Return the routes on which an installation starts and ends; none without a client id."""

    async def install(request: Request) -> Response:
        return await _answer(settings, request, "install")

    async def redirect(request: Request) -> Response:
        return await _answer(settings, request, "redirect")

    return [Route(INSTALL, install), Route(REDIRECT, redirect)] if settings.client_id is not None else []


async def _answer(settings: SlackSettings, request: Request, step: str) -> Response:
    app: App = request.app.state.parley
    if request.method == "HEAD":
        raise Fault(404, "not_found", HTTP_SENTENCES[404])
    from slack_bolt.adapter.starlette.async_handler import to_async_bolt_request, to_starlette_response

    from adapters.slack.install.oauth import answer

    own, cells = to_async_bolt_request(request, b""), request.app.state.cells
    return to_starlette_response(await answer(app, settings, own, step=step, cells=cells))
