"""One task on a remote agent, in the protocol version of its card: send it, follow its updates, collect the answer.

Importing this module imports the A2A SDK, so it is imported when the first task is sent.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
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
from msgspec import Struct, field

from agent.agents.a2a.http import Address, Guarded, origin_of
from shared.errors import ToolError, Unavailable
from shared.http.client import GuardedClient
from shared.text import clean, cut

BINDINGS = [TransportProtocol.JSONRPC.value, TransportProtocol.HTTP_JSON.value]
# The exceptions that the SDK raises for a response that is not valid A2A.
GARBAGE = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, ProtobufError)
# Prefixes of the SDK's error messages for an invalid response, as opposed to an error that the agent reports.
NO_ANSWER = ("Invalid JSON-RPC response", "SSE stream error", "HTTP client is closed")
OPEN = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})
ASKS_BACK = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 3.0
# An installation whose process was killed is back within fifteen seconds.
GONE_SECONDS = 20.0
MAX_TEXT = 200_000
MAX_PARTS = 20_000
MAX_ERROR_CHARS = 500
BREATHER = 50

# The SDK logs the full text of cards and messages; we log our own events instead.
logging.getLogger("a2a").setLevel(logging.CRITICAL)


class Question(Struct, frozen=True):
    """A task to send."""

    text: str
    message_id: str
    metadata: Mapping[str, Any]

    def to_request(self, *, at_once: bool) -> SendMessageRequest:
        """Return the A2A request; with `at_once` the agent returns the task's id immediately instead of its result."""
        parts = [Part(text=self.text)]
        message = Message(message_id=self.message_id, role=Role.ROLE_USER, parts=parts, metadata=dict(self.metadata))
        request = SendMessageRequest(message=message)
        request.configuration.return_immediately = at_once
        return request


class TaskProgress(Struct):
    """The state of a task and the answer so far, collected from the updates."""

    task_id: str = ""
    state: int = TaskState.TASK_STATE_SUBMITTED
    is_over: bool = False
    last_message: Message | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    _artifacts: dict[str, list[Part]] = field(default_factory=dict)
    _parts: int = 0

    def apply(self, update: StreamResponse) -> None:
        """Apply one update."""
        if update.HasField("task"):
            self.apply_task(update.task)
        elif update.HasField("message"):
            self.last_message, self.state, self.is_over = update.message, TaskState.TASK_STATE_COMPLETED, True
        elif update.HasField("status_update"):
            self.task_id = self.task_id or update.status_update.task_id
            self.metadata |= MessageToDict(update.status_update.metadata)
            self._apply_status(update.status_update.status)
        elif update.HasField("artifact_update"):
            self._apply_artifact(update.artifact_update.artifact, is_more=update.artifact_update.append)

    def apply_task(self, task: Task) -> None:
        """Apply a full snapshot of the task."""
        self.task_id = task.id
        self.metadata |= MessageToDict(task.metadata)
        for artifact in task.artifacts:
            self._apply_artifact(artifact, is_more=False)
        self._apply_status(task.status)

    def _apply_status(self, status: TaskStatus) -> None:
        self.state = status.state
        self.is_over = status.state not in OPEN
        if status.HasField("message"):
            self.last_message = status.message

    def _apply_artifact(self, artifact: Artifact, *, is_more: bool) -> None:
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
        artifact_parts = [part for parts in self._artifacts.values() for part in parts]
        return artifact_parts or (list(self.last_message.parts) if self.last_message is not None else [])

    @property
    def text(self) -> str:
        """Return the text of the artifacts, plus the last message if there are none or the task is not completed."""
        texts = [text for parts in self._artifacts.values() if (text := to_text(parts)).strip()]
        if self.last_message is not None and (not texts or self.state != TaskState.TASK_STATE_COMPLETED):
            texts.append(to_text(self.last_message.parts))
        return cut(clean("\n\n".join(texts)), MAX_TEXT)


def is_done(state: int) -> bool:
    """Return whether a task was completed successfully."""
    return state == TaskState.TASK_STATE_COMPLETED


def to_text(parts: Sequence[Part]) -> str:
    """Return the parts as text; data parts as JSON, files left out."""
    texts = []
    for part in parts:
        if part.HasField("text"):
            texts.append(part.text)
        elif part.HasField("data"):
            texts.append(f"\n{json.dumps(MessageToDict(part.data), ensure_ascii=False)}\n")
    return "".join(texts)


class PeerRefused(ToolError):
    """The agent refuses the task, or has failed at it."""


@contextmanager
def translated_errors(name: str) -> Iterator[None]:
    """Convert errors in the block: `ToolError` if the agent reports a refusal or failure, otherwise `Unavailable`."""
    try:
        yield
    except A2AError as error:
        if isinstance(error.__cause__, httpx.HTTPStatusError):
            status = error.__cause__.response.status_code
            raise Unavailable(f"{name} answered with the HTTP status {status}.") from error
        if error.__cause__ is not None or str(error).startswith(NO_ANSWER):
            raise Unavailable(f"{name} broke off, or does not answer as an A2A agent does.") from error
        raise PeerRefused(f"{name} said no: {cut(clean(str(error)), MAX_ERROR_CHARS)}") from error
    except GARBAGE as error:
        raise Unavailable(f"{name} does not answer as an A2A agent does.") from error
    except (ToolError, Unavailable) as error:
        raise type(error)(f"{name} can't be asked: {error}") from error


def to_card(document: Any) -> AgentCard:
    """Parse an agent card of either protocol version; raises one of `GARBAGE` if it is not a valid card."""
    card = parse_agent_card(document)
    if not card.supported_interfaces:
        raise ValueError("the card names no interface")
    return card


@asynccontextmanager
async def connected(http: GuardedClient, address: Address, card: AgentCard, seconds: float) -> AsyncIterator[Client]:
    """Yield an SDK client for an interface that both sides support, preferably one at the row's own origin.

    Raises `ToolError` if the card has no such interface.
    """
    supported_interfaces = [
        interface for interface in card.supported_interfaces if interface.protocol_binding in BINDINGS
    ]
    own = [interface for interface in supported_interfaces if origin_of(interface.url) == address.origin]
    client_card = AgentCard()
    client_card.CopyFrom(card)
    del client_card.supported_interfaces[:]
    client_card.supported_interfaces.extend(own or supported_interfaces)
    if not supported_interfaces:
        raise ToolError("its card offers neither JSON-RPC nor HTTP+JSON.")
    async with AsyncExitStack() as open_streams:
        transport = Guarded(http, address, open_streams=open_streams, seconds=seconds)
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            config = ClientConfig(httpx_client=client, supported_protocol_bindings=BINDINGS)
            yield ClientFactory(config).create(client_card)


async def carry_out(client: Client, card: AgentCard, question: Question, progress: TaskProgress) -> None:
    """Send a task and collect its updates in `progress`: streamed if the agent can stream, otherwise by polling.

    A broken stream is continued by polling. Raises `Unavailable` if the connection breaks before the task has an id.
    """
    updates = 0
    try:
        async for update in client.send_message(question.to_request(at_once=not card.capabilities.streaming)):
            progress.apply(update)
            if progress.is_over:
                return
            updates += 1
            if updates % BREATHER == 0:
                # Yield to the event loop, so that an endless stream does not block other tasks.
                await asyncio.sleep(0)
    except (Unavailable, A2AClientError):
        if not progress.task_id:
            raise
    if not progress.task_id:
        raise Unavailable("it broke off before it had begun.")
    clock = asyncio.get_running_loop()
    pause, heard_at = FIRST_PAUSE_SECONDS, clock.time()
    while not progress.is_over:
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
        try:
            progress.apply_task(await client.get_task(GetTaskRequest(id=progress.task_id, history_length=0)))
            heard_at = clock.time()
        except (Unavailable, A2AClientError):
            if clock.time() - heard_at > GONE_SECONDS:
                raise


async def cancel_task(client: Client, task_id: str) -> None:
    """Ask the agent to cancel a task."""
    await client.cancel_task(CancelTaskRequest(id=task_id))
