"""Peers of a running Parley: the official client in both generations, and what they are told."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from httpx import AsyncClient

from tests.adapters.web.conftest import NO_CERTIFICATES, Site
from tests.standins.openai_api import Answer, Fault
from tests.standins.openai_api.script import Body, last_user_text
from tests.support.eventually import eventually

GENERATIONS = ("1.0", "0.3")
CARD = "/.well-known/agent-card.json"
ANN = {"platform": "test", "platform_user_id": "ann"}


def state(task: Any) -> str:
    """Return the short name of a state."""
    return TaskState.Name(task.status.state).removeprefix("TASK_STATE_").lower()


def text_of(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts)


@dataclass
class Heard:
    """What came of one message: each update, and the answer put together as a client does."""

    updates: list[StreamResponse]

    @property
    def task_id(self) -> str:
        """Return the task's id, which the first update tells."""
        return self.updates[0].task.id

    @property
    def context_id(self) -> str:
        return self.updates[0].task.context_id

    @property
    def states(self) -> list[str]:
        """Return the states in the order in which they were told."""
        result = [update.task if update.HasField("task") else update.status_update for update in self.updates]
        return [state(task) for task in result if task.HasField("status")]

    @property
    def last(self) -> Any:
        """Return the last task or news of its status."""
        result = [update.task if update.HasField("task") else update.status_update for update in self.updates]
        return [task for task in result if task.HasField("status")][-1]

    @property
    def pieces(self) -> list[str]:
        """Return the pieces of the answer as they came."""
        return [
            text_of(update.artifact_update.artifact.parts)
            for update in self.updates
            if update.HasField("artifact_update")
        ]

    @property
    def parts(self) -> list[Part]:
        """Return the parts of the answer: what is appended is appended, all else replaces what was there."""
        parts: list[Part] = []
        for entry in self.updates:
            if entry.HasField("task") and entry.task.artifacts:
                parts = list(entry.task.artifacts[0].parts)
            if entry.HasField("artifact_update"):
                update = entry.artifact_update
                parts = [*(parts if update.append else []), *update.artifact.parts]
        return parts

    @property
    def answer(self) -> str:
        return text_of(self.parts)


@dataclass
class Peer:
    """Another agent's client, connected to a running Parley."""

    client: Client

    async def says(self, *parts: str | Part, **fields: Any) -> Heard:
        """Send a message and follow it to its end."""
        return Heard([update async for update in self.stream(*parts, **fields)])

    def stream(self, *parts: str | Part, **fields: Any) -> AsyncIterator[StreamResponse]:
        """Send a message and give each update as it comes."""
        return self.client.send_message(request(*parts, **fields))

    async def task(self, task_id: str) -> Task:
        return await self.client.get_task(GetTaskRequest(id=task_id))

    async def cancels(self, task_id: str) -> Task:
        return await self.client.cancel_task(CancelTaskRequest(id=task_id))

    async def follows(self, task_id: str) -> Heard:
        return Heard([update async for update in self.client.subscribe(SubscribeToTaskRequest(id=task_id))])


def request(
    *parts: str | Part, at_once: bool = False, metadata: dict[str, Any] | None = None, **ids: str
) -> SendMessageRequest:
    """Return a message of these parts."""
    message = Message(
        message_id=ids.get("message_id") or uuid4().hex,
        role=Role.ROLE_USER,
        parts=[Part(text=part) if isinstance(part, str) else part for part in parts],
        context_id=ids.get("context_id", ""),
        task_id=ids.get("task_id", ""),
        metadata=metadata,
    )
    return SendMessageRequest(message=message, configuration=SendMessageConfiguration(return_immediately=at_once))


@asynccontextmanager
async def connected(
    site: Site, generation: str, *, streams: bool = True, person: str | None = None
) -> AsyncIterator[Peer]:
    """Read a running Parley's card as a client of this generation does, and connect for this person, or for nobody."""
    headers = dict(site.client.headers) | ({"Parley-Platform": "test", "Parley-User": person} if person else {})
    async with AsyncClient(headers=headers, timeout=60, verify=NO_CERTIFICATES) as http:
        result = (await http.get(f"{site.url}{CARD}")).json()
        if generation == "0.3":
            # Which a client of that time does not know.
            del result["supportedInterfaces"]
        card = parse_agent_card(result)
        yield Peer(ClientFactory(ClientConfig(streaming=streams, httpx_client=http)).create(card))


async def ended(peer: Peer, task_id: str) -> Task:
    """Ask for a task until it has ended, and return it."""

    async def ask() -> Task | None:
        task = await peer.task(task_id)
        return None if state(task) in ("submitted", "working") else task

    task: Task = await eventually(ask)
    return task


async def asked_the_model(site: Site) -> None:
    """Wait until the model has been asked."""

    async def look() -> int:
        return len(site.parley.model.requests)

    await eventually(look)


def hanging(_body: Body, _number: int) -> Fault:
    """Never answer."""
    return Fault(hang=True)


def say_it_back(body: Body, _number: int) -> Answer:
    """Answer with what was asked."""
    return Answer(f"You said: {question_of(body)}")


def question_of(body: Body) -> str:
    """Return the question, without the clock and the name of who asks."""
    return last_user_text(body).partition("<context>")[0].strip().partition(": ")[2]


def call(method: str, params: Any) -> dict[str, Any]:
    """Return a call as it goes over the wire."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def message(text: str) -> dict[str, Any]:
    """Return a message as the generation before writes it."""
    return {"role": "user", "messageId": "m-1", "kind": "message", "parts": [{"kind": "text", "text": text}]}
