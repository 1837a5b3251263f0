"""A2A server: other agents send messages here, in versions 0.3 and 1.0 of the protocol.

The official SDK reads and writes the protocol; the state of a task is derived from our tables. The SDK is imported with
the first request, because most installations are never called by another agent.
"""

import asyncio
from importlib import import_module

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adapters.a2a.bodies import with_checked_body
from adapters.web.guard import app_of, with_token

PATH = "/a2a"
# Clients of version 0.3 and older look at the second path.
CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")


def routes() -> list[Route]:
    """Return the routes that the web server adds for A2A."""
    return [
        Route(PATH, post_call, methods=["POST"]),
        *(Route(path, get_card) for path in CARD_PATHS),
    ]


async def get_card(request: Request) -> Response:
    """Send the agent card to anybody: the agent's name, the endpoint's address and its authentication."""
    # Importing the SDK takes 0.3 s; in a thread, other requests are served meanwhile.
    await asyncio.to_thread(import_module, "adapters.a2a.card")
    from adapters.a2a.card import send_card

    return await send_card(app_of(request), request, PATH)


@with_token
async def post_call(request: Request) -> Response:
    """Answer one JSON-RPC call with a JSON object or with an event stream."""
    call = await with_checked_body(request, app_of(request))
    state = request.app.state
    if not hasattr(state, "a2a"):
        await asyncio.to_thread(import_module, "adapters.a2a.rpc")
        from adapters.a2a.rpc import Dispatcher

        state.a2a = Dispatcher(app_of(request))
    response: Response = await state.a2a.handle_requests(call)
    return response
