"""An A2A agent written with the official SDK, like its examples, and a loopback server for any application."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
)
from google.protobuf.struct_pb2 import Value
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from adapters.web.app import Server, to_config


@dataclass
class Far(AgentExecutor):
    """Does what the first word of the task says, and records its tasks."""

    asked: list[Message] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    hanging: asyncio.Event = field(default_factory=asyncio.Event)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Do the task."""
        assert context.message is not None
        self.asked.append(context.message)
        self.headers.append(context.call_context.state["headers"])
        word, _, rest = context.get_user_input().partition(" ")
        if word == "message":
            await event_queue.enqueue_event(
                Message(message_id="answer", role=Role.ROLE_AGENT, parts=[Part(text=f"Just said: {rest}")])
            )
            return
        task = Task(
            id=context.task_id or "",
            context_id=context.context_id or "",
            status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
        )
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        await getattr(self, f"_{word}", self._echo)(updater, rest)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Record it and end the task."""
        self.cancelled.append(context.task_id or "")
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()

    async def _echo(self, updater: TaskUpdater, rest: str) -> None:
        await updater.add_artifact([Part(text=f"Far says: {rest}")], name="answer")
        await updater.complete()

    async def _stream(self, updater: TaskUpdater, rest: str) -> None:
        for number in range(int(rest)):
            await updater.add_artifact(
                [Part(text=f"{number} né🦜 ")],
                artifact_id="answer",
                append=number > 0,
                last_chunk=number == int(rest) - 1,
            )
        await updater.complete()

    async def _parts(self, updater: TaskUpdater, rest: str) -> None:
        data = Value()
        data.struct_value.update({"sum": 4})
        await updater.add_artifact([Part(text="Here: "), Part(data=data)], name="first")
        files = [
            Part(raw=b"a,b\n", filename="table.csv", media_type="text/csv"),
            Part(url=rest, filename="far.txt", media_type="text/plain"),
        ]
        await updater.add_artifact(files, name="second")
        await updater.complete()

    async def _fail(self, updater: TaskUpdater, rest: str) -> None:
        await updater.failed(updater.new_agent_message([Part(text=rest)]))

    async def _refuse(self, updater: TaskUpdater, rest: str) -> None:
        await updater.reject(updater.new_agent_message([Part(text=rest)]))

    async def _question(self, updater: TaskUpdater, rest: str) -> None:
        await updater.requires_input(updater.new_agent_message([Part(text=rest)]))

    async def _later(self, updater: TaskUpdater, rest: str) -> None:
        await asyncio.sleep(float(rest))
        await self._echo(updater, "at last")

    async def _hang(self, updater: TaskUpdater, rest: str) -> None:
        self.hanging.set()
        await asyncio.Event().wait()


def build_agent(
    far: Far, url: str, *, versions: tuple[str, ...] = ("1.0",), binding: str = "JSONRPC", streams: bool = True
) -> Starlette:
    """Return the agent as a web application under this address."""
    path = "/rpc" if binding == "JSONRPC" else "/rest"
    card = AgentCard(
        name="Far",
        description="An agent elsewhere.",
        version="1",
        supported_interfaces=[
            AgentInterface(url=url + path, protocol_binding=binding, protocol_version=version) for version in versions
        ],
        capabilities=AgentCapabilities(streaming=streams),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="Echo", description="Says it back.", tags=["echo"])],
    )
    handler = DefaultRequestHandler(agent_executor=far, task_store=InMemoryTaskStore(), agent_card=card)
    return Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
            *create_rest_routes(handler, path_prefix="/rest", enable_v0_3_compat=True),
        ]
    )


@dataclass
class Swap:
    """A replaceable application, so that its address is known before it is created."""

    inner: ASGIApp | None = None
    requests: list[tuple[str, str]] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward to the present application."""
        assert self.inner is not None
        self.requests.append((scope["method"], scope["path"]))
        await self.inner(scope, receive, send)


@asynccontextmanager
async def serving(swap: Swap) -> AsyncIterator[str]:
    """Serve on a free loopback port and yield the address; open requests are cancelled at the end."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = Server(to_config(swap, lifespan="off", http="httptools"))
    task = asyncio.create_task(server.serve([listening]), name="stand-in")
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        with suppress(asyncio.CancelledError):
            await task
