"""The two addresses of an installation. The library is loaded when somebody comes to one of them."""

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adapters.web.api.faults import HTTP_SENTENCES, Fault

if TYPE_CHECKING:
    from agent.app import App

INSTALL, REDIRECT = "/slack/install", "/slack/oauth_redirect"


def routes() -> list[Route]:
    """Return where a browser begins an installation, and where Slack sends it back to."""
    return [Route(INSTALL, get_install), Route(REDIRECT, get_redirect)]


async def get_install(request: Request) -> Response:
    """Send a browser to Slack's own page."""
    return await _answer(request, "install")


async def get_redirect(request: Request) -> Response:
    """Finish what Slack's page has brought back."""
    return await _answer(request, "redirect")


async def _answer(request: Request, step: str) -> Response:
    app: App = request.app.state.parley
    if app.settings.slack_client_id is None or request.method == "HEAD":
        raise Fault(404, "not_found", HTTP_SENTENCES[404])
    from slack_bolt.adapter.starlette.async_handler import to_async_bolt_request, to_starlette_response

    from adapters.slack.install.oauth import answer

    return to_starlette_response(await answer(app, step, to_async_bolt_request(request, b"")))
