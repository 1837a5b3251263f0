"""One task at another agent, in whichever generation of the protocol its card speaks: sent, followed, collected.

The SDK is imported with this file, so by the first task that goes out.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from a2a.client import A2AClientError, Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.types.a2a_pb2 import (
    AgentCard,
    Artifact,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
    TaskStatus,
)
from a2a.utils.constants import TransportProtocol
from a2a.utils.errors import A2AError
from google.protobuf.json_format import Error as ProtobufError
from google.protobuf.json_format import MessageToDict

from agent.a2a.http import Address, Guarded, origin_of
from shared.errors import ToolError, Unavailable
from shared.http.client import GuardedClient
from shared.text import clean, cut

BINDINGS = [TransportProtocol.JSONRPC.value, TransportProtocol.HTTP_JSON.value]
# What a foreign answer makes the SDK trip over, when it is no answer at all.
GARBAGE = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, ProtobufError)
# How the SDK's errors begin that tell of such an answer, and not of one that says no.
NO_ANSWER = ("Invalid JSON-RPC response", "SSE stream error", "HTTP client is closed")
OPEN = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})
ASKS_BACK = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 3.0
MAX_FAILURES = 4
MAX_TEXT = 200_000
MAX_PARTS = 20_000
MAX_SAID = 500
BREATHER = 50

# It logs cards and what agents say, word for word; our own lines say what happened.
logging.getLogger("a2a").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class Question:
    """A task as it is sent."""

    text: str
    message_id: str
    metadata: Mapping[str, Any]

    def to_request(self, *, at_once: bool) -> SendMessageRequest:
        """Return it in the protocol's shape; `at_once` asks for the task's id instead of its end."""
        parts = [Part(text=self.text)]
        message = Message(message_id=self.message_id, role=Role.ROLE_USER, parts=parts, metadata=dict(self.metadata))
        request = SendMessageRequest(message=message)
        request.configuration.return_immediately = at_once
        return request


@dataclass
class Heard:
    """What an agent has said so far."""

    task_id: str = ""
    state: int = TaskState.TASK_STATE_SUBMITTED
    is_over: bool = False
    said_last: Message | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    _artifacts: dict[str, list[Part]] = field(default_factory=dict)
    _parts: int = 0

    def take(self, update: StreamResponse) -> None:
        """Take one update."""
        if update.HasField("task"):
            self.take_task(update.task)
        elif update.HasField("message"):
            self.said_last, self.state, self.is_over = update.message, TaskState.TASK_STATE_COMPLETED, True
        elif update.HasField("status_update"):
            self.task_id = self.task_id or update.status_update.task_id
            self.metadata |= MessageToDict(update.status_update.metadata)
            self._take_status(update.status_update.status)
        elif update.HasField("artifact_update"):
            self._take_artifact(update.artifact_update.artifact, is_more=update.artifact_update.append)

    def take_task(self, task: Task) -> None:
        """Take a task as it stands."""
        self.task_id = task.id
        self.metadata |= MessageToDict(task.metadata)
        for artifact in task.artifacts:
            self._take_artifact(artifact, is_more=False)
        self._take_status(task.status)

    def _take_status(self, status: TaskStatus) -> None:
        self.state = status.state
        self.is_over = status.state not in OPEN
        if status.HasField("message"):
            self.said_last = status.message

    def _take_artifact(self, artifact: Artifact, *, is_more: bool) -> None:
        parts = self._artifacts.setdefault(artifact.artifact_id, [])
        if not is_more:
            self._parts -= len(parts)
            parts.clear()
        parts.extend(artifact.parts)
        self._parts += len(artifact.parts)
        if self._parts > MAX_PARTS:
            raise ToolError(f"It answered in more than {MAX_PARTS:,} parts.")

    @property
    def parts(self) -> list[Part]:
        """Return all parts of the answer."""
        found = [part for parts in self._artifacts.values() for part in parts]
        return found or (list(self.said_last.parts) if self.said_last is not None else [])

    @property
    def text(self) -> str:
        """Return the answer's text: the artifacts, and what it said last when that is not all the same."""
        texts = [text for parts in self._artifacts.values() if (text := to_text(parts)).strip()]
        if self.said_last is not None and (not texts or self.state != TaskState.TASK_STATE_COMPLETED):
            texts.append(to_text(self.said_last.parts))
        return cut(clean("\n\n".join(texts)), MAX_TEXT)


def is_done(state: int) -> bool:
    """Tell whether a task has come to what was asked for."""
    return state == TaskState.TASK_STATE_COMPLETED


def to_text(parts: Sequence[Part]) -> str:
    """Return the text of parts as it was said, with data as JSON."""
    return "".join(part.text if part.HasField("text") else _as_json(part) for part in parts)


def _as_json(part: Part) -> str:
    return f"\n{json.dumps(MessageToDict(part.data), ensure_ascii=False)}\n" if part.HasField("data") else ""


class SaidNo(ToolError):
    """The agent refuses the task, or has failed at it."""


@contextmanager
def in_our_words(name: str) -> Iterator[None]:
    """Say what goes wrong in the block in errors of ours: `ToolError` when the agent says no, else `Unavailable`."""
    try:
        yield
    except A2AError as error:
        if isinstance(error.__cause__, httpx.HTTPStatusError):
            status = error.__cause__.response.status_code
            raise Unavailable(f"{name} answered with the HTTP status {status}.") from error
        if error.__cause__ is not None or str(error).startswith(NO_ANSWER):
            raise Unavailable(f"{name} broke off, or does not answer as an A2A agent does.") from error
        raise SaidNo(f"{name} said no: {cut(clean(str(error)), MAX_SAID)}") from error
    except GARBAGE as error:
        raise Unavailable(f"{name} does not answer as an A2A agent does.") from error
    except (ToolError, Unavailable) as error:
        raise type(error)(f"{name} can't be asked: {error}") from error


def to_card(told: Any) -> AgentCard:
    """Return a card of either generation; raises one of `GARBAGE` for what is none."""
    card = parse_agent_card(told)
    if not card.supported_interfaces:
        raise ValueError("the card names no interface")
    return card


@asynccontextmanager
async def connected(http: GuardedClient, address: Address, card: AgentCard, seconds: float) -> AsyncIterator[Client]:
    """Give the SDK's client for the best interface that we share, one at the row's own origin if there is any."""
    known = [each for each in card.supported_interfaces if each.protocol_binding in BINDINGS]
    own = [each for each in known if origin_of(each.url) == address.origin]
    shown = AgentCard()
    shown.CopyFrom(card)
    del shown.supported_interfaces[:]
    shown.supported_interfaces.extend(own or known)
    if not known:
        raise ToolError("its card offers neither JSON-RPC nor HTTP+JSON.")
    async with AsyncExitStack() as open_streams:
        transport = Guarded(http, address, open_streams=open_streams, seconds=seconds)
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            config = ClientConfig(httpx_client=client, supported_protocol_bindings=BINDINGS)
            yield ClientFactory(config).create(shown)


async def carry_out(client: Client, card: AgentCard, question: Question, heard: Heard) -> None:
    """Have a task done: follow it where the agent streams; elsewhere, or when that breaks off, ask for it again."""
    updates = 0
    try:
        async for update in client.send_message(question.to_request(at_once=not card.capabilities.streaming)):
            heard.take(update)
            if heard.is_over:
                return
            updates += 1
            if updates % BREATHER == 0:
                # An agent that always has more to say must not keep the others waiting.
                await asyncio.sleep(0)
    except (Unavailable, A2AClientError):
        if not heard.task_id:
            raise
    if not heard.task_id:
        raise Unavailable("it broke off before it had begun.")
    await _ask_again(client, heard)


async def _ask_again(client: Client, heard: Heard) -> None:
    pause, failures = FIRST_PAUSE_SECONDS, 0
    while not heard.is_over:
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
        try:
            heard.take_task(await client.get_task(GetTaskRequest(id=heard.task_id, history_length=0)))
            failures = 0
        except (Unavailable, A2AClientError):
            failures += 1
            if failures >= MAX_FAILURES:
                raise


async def tell_to_stop(client: Client, task_id: str) -> None:
    """Ask the agent to cancel a task."""
    await client.cancel_task(CancelTaskRequest(id=task_id))
