"""What a peer is told of its message: a task while the turn runs, and what came of it.

A task is a row of the inbox; whoever asks in whichever process reads the same.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.a2a.sent import DOOR
from agent.journal.responses import find_response
from agent.journal.steps import Event
from agent.people.hops import CHANNEL
from shared.messages import AgentResponse, Place
from shared.models import InboxMessage, Turn

ARTIFACT = "answer"
MAX_ID = 2**63 - 1
OPEN = {"waiting": TaskState.TASK_STATE_SUBMITTED, "claimed": TaskState.TASK_STATE_WORKING}
# Said before any work was done: the task was not taken.
NOT_TAKEN = frozenset({"budget_exhausted", "budget_busy", "refused"})

Update = TaskStatusUpdateEvent | TaskArtifactUpdateEvent


@dataclass(frozen=True, slots=True)
class End:
    """What a turn came to."""

    turn_id: int
    content: str
    files: list[dict[str, Any]]
    iterations: int
    finished: bool
    error: str | None
    usage: dict[str, Any]

    @classmethod
    def of_response(cls, said: AgentResponse) -> "End":
        """Return the end that is read back."""
        files = [asdict(file) for file in said.files]
        return cls(said.turn_id, said.content, files, said.iterations, said.finished, said.error, asdict(said.usage))

    @classmethod
    def of_events(cls, said: Event, last: Event) -> "End":
        """Return the end that the last two events tell."""
        message, end = said.payload, last.payload
        told = (end["iterations"], end["finished"], end["error"], end["usage"])
        return cls(last.turn_id, message["content"], message["files"], *told)

    @property
    def state(self) -> TaskState:
        """Return the state that the task ends in."""
        if self.error is None:
            return TaskState.TASK_STATE_COMPLETED
        if self.error == "stopped":
            return TaskState.TASK_STATE_CANCELED
        is_refused = self.error in NOT_TAKEN and self.iterations == 0
        return TaskState.TASK_STATE_REJECTED if is_refused else TaskState.TASK_STATE_FAILED

    @property
    def file_parts(self) -> list[Part]:
        """Return the files of the reply, by their signed links."""
        return [Part(url=file["url"], filename=file["filename"], media_type=file["mime_type"]) for file in self.files]

    @property
    def told(self) -> dict[str, Any]:
        """Return what the protocol has no field for."""
        return {
            "parley/turn_id": self.turn_id,
            "parley/iterations": self.iterations,
            "parley/finished": self.finished,
            "parley/error": self.error,
            "parley/usage": self.usage,
        }


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A message of a peer as the inbox keeps it."""

    inbox_id: int
    message_id: str
    content: str
    status: str
    place: Place
    user_id: str
    turn_id: int | None
    changed_at: datetime

    @property
    def id(self) -> str:
        """Return the task's id."""
        return str(self.inbox_id)

    @property
    def context_id(self) -> str:
        """Return the context's id, as the peer knows it."""
        return self.place.channel.removeprefix(CHANNEL)

    @property
    def is_open(self) -> bool:
        """Tell whether it is still to be answered."""
        return self.status in OPEN

    def status_update(self, status: TaskStatus, end: End | None = None) -> TaskStatusUpdateEvent:
        """Return the news that the task is in this state now."""
        told = None if end is None else end.told
        return TaskStatusUpdateEvent(task_id=self.id, context_id=self.context_id, status=status, metadata=told)

    def status_of(self, end: End) -> TaskStatus:
        """Return the last state; what did not become an answer is said in its message."""
        status = TaskStatus(state=end.state)
        if end.error is not None:
            parts = [Part(text=end.content), *end.file_parts]
            status.message.CopyFrom(self._message(f"turn-{end.turn_id}", Role.ROLE_AGENT, parts))
        return status

    def to_task(self, end: End | None) -> Task:
        """Return the task as it stands; without an end it is still open."""
        status = TaskStatus(state=OPEN[self.status]) if end is None else self.status_of(end)
        status.timestamp.FromDatetime(self.changed_at)
        task = Task(id=self.id, context_id=self.context_id, status=status)
        task.history.append(self._message(self.message_id, Role.ROLE_USER, [Part(text=self.content)]))
        if end is not None:
            task.metadata.update(end.told)
            if end.error is None:
                parts = [Part(text=end.content), *end.file_parts]
                task.artifacts.append(Artifact(artifact_id=ARTIFACT, name=ARTIFACT, parts=parts))
        return task

    def _message(self, message_id: str, role: Role, parts: list[Part]) -> Message:
        return Message(message_id=message_id, role=role, parts=parts, task_id=self.id, context_id=self.context_id)


COLUMNS = (
    InboxMessage.id,
    InboxMessage.platform_message_id,
    InboxMessage.content,
    InboxMessage.status,
    InboxMessage.platform,
    InboxMessage.platform_channel_id,
    InboxMessage.platform_thread_id,
    InboxMessage.is_direct,
    InboxMessage.platform_user_id,
    InboxMessage.turn_id,
    func.coalesce(Turn.finished_at, Turn.started_at, InboxMessage.created_at).label("changed_at"),
)
ROW = select(*COLUMNS).outerjoin(Turn, Turn.id == InboxMessage.turn_id).where(InboxMessage.door == DOOR)


async def find_row(session: AsyncSession, task_id: str) -> TaskRow | None:
    """Return what the inbox holds under this id, None when no peer has sent it."""
    if not (task_id.isascii() and task_id.isdigit()) or len(task_id) > 19 or int(task_id) > MAX_ID:
        return None
    row = (await session.execute(ROW.where(InboxMessage.id == int(task_id)))).one_or_none()
    if row is None:
        return None
    place = Place(row.platform, None, row.platform_channel_id, row.platform_thread_id, row.is_direct)
    sent = (row.id, row.platform_message_id, row.content, row.status)
    return TaskRow(*sent, place, row.platform_user_id, row.turn_id, row.changed_at)


async def find_task(session: AsyncSession, task_id: str) -> Task | None:
    """Return the task with this id as it stands, None when there is none."""
    row = await find_row(session, task_id)
    if row is None:
        return None
    said = await find_response(session, row.inbox_id)
    return row.to_task(None if said is None else End.of_response(said))


class Updates:
    """Turns the events of a turn into the news of its task."""

    def __init__(self, row: TaskRow) -> None:
        self._row = row
        self._said = ""
        # What was said before a tool call is no part of the answer: the next piece replaces it.
        self._begins = True
        self._message: Event | None = None

    def take(self, event: Event) -> Iterator[Update]:
        """Yield what a peer is told when this has happened."""
        if event.name == "turn_started":
            yield self._row.status_update(TaskStatus(state=TaskState.TASK_STATE_WORKING))
        elif event.name == "tool_call":
            self._begins = True
        elif event.name == "text_delta":
            self._begins = self._begins or bool(event.payload.get("reset"))
            if event.payload["text"]:
                yield self._add(event.payload["text"])
        elif event.name == "message":
            self._message = event
        elif event.name == "turn_complete" and self._message is not None:
            yield from self._end(End.of_events(self._message, event))

    def _end(self, end: End) -> Iterator[Update]:
        if end.error is None:
            self._begins = self._begins or not end.content.startswith(self._said)
            rest = end.content if self._begins else end.content[len(self._said) :]
            yield self._add(rest, end.file_parts, is_last=True)
        yield self._row.status_update(self._row.status_of(end), end)

    def _add(self, text: str, files: list[Part] | None = None, *, is_last: bool = False) -> Update:
        self._said = text if self._begins else self._said + text
        update = TaskArtifactUpdateEvent(
            task_id=self._row.id,
            context_id=self._row.context_id,
            artifact=Artifact(artifact_id=ARTIFACT, name=ARTIFACT, parts=[Part(text=text), *(files or [])]),
            append=not self._begins,
            last_chunk=is_last,
        )
        self._begins = False
        return update
