"""The door for other agents: this house as an A2A server, in both generations of the protocol.

The official SDK reads and writes the protocol; what a task is stands in our tables. The SDK is imported by the first
caller: most houses have none.
"""

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adapters.a2a.bodies import with_checked_body
from adapters.web.auth import app_of, with_token

if TYPE_CHECKING:
    from adapters.a2a.rpc import Dispatcher

PATH = "/a2a"
# The second is where clients before the third generation look.
CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")


def routes() -> list[Route]:
    """Return what the web server answers other agents at."""
    return [
        Route(PATH, post_call, methods=["POST"]),
        *(Route(path, get_card) for path in CARD_PATHS),
    ]


async def get_card(request: Request) -> Response:
    """Send the agent card to anybody: what this house is called, where it is asked, what it wants to see."""
    # The SDK takes a third of a second to import, in which others are served.
    await asyncio.to_thread(import_module, "adapters.a2a.card")
    from adapters.a2a.card import send_card

    return await send_card(app_of(request), request, PATH)


@with_token
async def post_call(request: Request) -> Response:
    """Answer one JSON-RPC call, with one object or with a stream of them."""
    checked = await with_checked_body(request, app_of(request))
    return await (await _dispatcher(request)).handle_requests(checked)


async def _dispatcher(request: Request) -> "Dispatcher":
    state = request.app.state
    if not hasattr(state, "a2a"):
        await asyncio.to_thread(import_module, "adapters.a2a.rpc")
        from adapters.a2a.rpc import Dispatcher

        state.a2a = Dispatcher(app_of(request))
    dispatcher: Dispatcher = state.a2a
    return dispatcher
