"""What tests of agents elsewhere stand on: asking one, and peers that are not as they should be."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from sqlalchemy import select
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from agent.agents.a2a.client import RemoteAgents
from agent.agents.a2a.exchange import TaskProgress
from agent.agents.delegation.peers import Asker, PeerAnswer
from shared.models import Agent
from tests.support.parley import Parley

CARD = "/.well-known/agent-card.json"
# Transport, generation, and whether the agent streams.
WAYS = [
    ("JSONRPC", "1.0", True),
    ("JSONRPC", "1.0", False),
    ("JSONRPC", "0.3", True),
    ("JSONRPC", "0.3", False),
    ("HTTP+JSON", "1.0", True),
    ("HTTP+JSON", "0.3", False),
]
Ask = Callable[..., Awaitable[PeerAnswer]]
Endpoint = Callable[[Request], Awaitable[Response]]


class Watched(RemoteAgents):
    """Shows what has been heard of the running task."""

    progress: TaskProgress | None = None

    async def _carry_out(self, running: Any, question: Any, seconds: float) -> None:
        self.progress = running.progress
        await super()._carry_out(running, question, seconds)

    async def knows_the_task(self) -> bool:
        """Tell whether the agent has told the task's id."""
        return self.progress is not None and self.progress.task_id != ""


async def asks(
    peers: RemoteAgents,
    parley: Parley,
    task: str,
    *,
    seconds: float = 30,
    hops: tuple[str, ...] = (),
    user_id: int = 1,
    is_direct: bool = False,
) -> PeerAnswer:
    """Ask the agent that an admin has added."""
    asker = Asker(user_id, is_direct)
    agent = await row(parley)
    return await peers.ask(agent, task, seconds=seconds, hops=hops, context_id="call_1_2", asker=asker)


async def row(parley: Parley) -> Agent:
    async with parley.app.database.transaction() as session:
        return (await session.execute(select(Agent))).scalar_one()


async def last_error(parley: Parley) -> str:
    """Return what an admin sees of the last failure."""
    return str(await parley.value("SELECT last_error FROM agents"))


def rough(url: str, answer: Endpoint, *, streams: bool = True, version: str = "1.0") -> Starlette:
    """Return a peer with a card that is in order, and calls that are answered by this."""
    card = {
        "name": "Rough",
        "description": "Not as it should be.",
        "version": "1",
        "supportedInterfaces": [{"url": f"{url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": version}],
        "capabilities": {"streaming": streams},
    }

    async def show(_request: Request) -> Response:
        return JSONResponse(card)

    return Starlette(routes=[Route(CARD, show), Route("/{path:path}", answer, methods=["GET", "POST"])])


def event(result: Mapping[str, Any]) -> bytes:
    """Return one event of a stream, as the present generation writes it."""
    return b"data: " + json.dumps({"jsonrpc": "2.0", "id": "1", "result": result}).encode() + b"\n\n"


STARTED = event({"task": {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}})


async def broken(*pieces: bytes) -> AsyncIterator[bytes]:
    """Send these and let the connection die."""
    for piece in pieces:
        yield piece
    raise ConnectionResetError


async def far_text(request: Request) -> Response:
    """Send a file to whoever has its link; nobody's token comes with that."""
    assert "authorization" not in request.headers
    return PlainTextResponse("far away")
