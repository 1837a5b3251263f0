"""The state of a peer's message as an A2A task: while its turn runs, and when it has ended.

A task is a row of the inbox, so every process returns the same state.
"""

from collections.abc import Iterator
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
from msgspec import Struct
from sqlalchemy import Select, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.a2a.incoming import ADAPTER
from agent.journal.responses import find_response
from agent.journal.steps import Event
from agent.people.hops import CHANNEL
from shared.messages import AgentResponse, Place, Sender, to_fields
from shared.models import InboxMessage, Turn
from shared.text import to_id

ARTIFACT = "answer"
OPEN = {"waiting": TaskState.TASK_STATE_SUBMITTED, "claimed": TaskState.TASK_STATE_WORKING}
# The errors that end a turn before any work was done: the task was rejected.
REFUSALS = frozenset({"budget_exhausted", "budget_busy", "refused"})

Update = TaskStatusUpdateEvent | TaskArtifactUpdateEvent


class TaskEnd(Struct, frozen=True):
    """The result of a turn."""

    turn_id: int
    content: str
    files: list[dict[str, Any]]
    iterations: int
    finished: bool
    error: str | None
    usage: dict[str, Any]

    @classmethod
    def of_response(cls, response: AgentResponse) -> "TaskEnd":
        """Return the result of a stored response."""
        files = [to_fields(file) for file in response.files]
        return cls(
            turn_id=response.turn_id,
            content=response.content,
            files=files,
            iterations=response.iterations,
            finished=response.finished,
            error=response.error,
            usage=to_fields(response.usage),
        )

    @classmethod
    def of_events(cls, reply: Event, last: Event) -> "TaskEnd":
        """Return the result that the events `message` and `turn_complete` contain."""
        message, end = reply.payload, last.payload
        return cls(
            turn_id=last.turn_id,
            content=message["content"],
            files=message["files"],
            iterations=end["iterations"],
            finished=end["finished"],
            error=end["error"],
            usage=end["usage"],
        )

    @property
    def state(self) -> TaskState:
        """Return the task's final state."""
        if self.error is None:
            return TaskState.TASK_STATE_COMPLETED
        if self.error == "stopped":
            return TaskState.TASK_STATE_CANCELED
        is_refused = self.error in REFUSALS and self.iterations == 0
        return TaskState.TASK_STATE_REJECTED if is_refused else TaskState.TASK_STATE_FAILED

    @property
    def file_parts(self) -> list[Part]:
        """Return the files of the reply as signed links."""
        return [Part(url=file["url"], filename=file["filename"], media_type=file["mime_type"]) for file in self.files]

    @property
    def metadata(self) -> dict[str, Any]:
        """Return the fields for which the protocol has no place."""
        return {
            "parley/turn_id": self.turn_id,
            "parley/iterations": self.iterations,
            "parley/finished": self.finished,
            "parley/error": self.error,
            "parley/usage": self.usage,
        }


class TaskRow(Struct, frozen=True):
    """A peer's message in the inbox."""

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
        """Return the context's id as the peer knows it."""
        return self.place.channel.removeprefix(CHANNEL)

    @property
    def is_open(self) -> bool:
        """Return whether the task has not ended."""
        return self.status in OPEN

    def status_update(self, status: TaskStatus, end: TaskEnd | None = None) -> TaskStatusUpdateEvent:
        """Return the event for a change of the task's status."""
        metadata = None if end is None else end.metadata
        return TaskStatusUpdateEvent(task_id=self.id, context_id=self.context_id, status=status, metadata=metadata)

    def status_of(self, end: TaskEnd) -> TaskStatus:
        """Return the final status; the text of an error is its message."""
        status = TaskStatus(state=end.state)
        if end.error is not None:
            parts = [Part(text=end.content), *end.file_parts]
            status.message.CopyFrom(self._message(f"turn-{end.turn_id}", Role.ROLE_AGENT, parts))
        return status

    def to_task(self, end: TaskEnd | None) -> Task:
        """Return the task; without `end` it is still open."""
        status = TaskStatus(state=OPEN[self.status]) if end is None else self.status_of(end)
        status.timestamp.FromDatetime(self.changed_at)
        task = Task(id=self.id, context_id=self.context_id, status=status)
        task.history.append(self._message(self.message_id, Role.ROLE_USER, [Part(text=self.content)]))
        if end is not None:
            task.metadata.update(end.metadata)
            if end.error is None:
                parts = [Part(text=end.content), *end.file_parts]
                task.artifacts.append(Artifact(artifact_id=ARTIFACT, name=ARTIFACT, parts=parts))
        return task

    def _message(self, message_id: str, role: Role, parts: list[Part]) -> Message:
        return Message(message_id=message_id, role=role, parts=parts, task_id=self.id, context_id=self.context_id)


CHANGED_AT = func.coalesce(Turn.finished_at, Turn.started_at, InboxMessage.created_at)
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
    CHANGED_AT.label("changed_at"),
)
ROW = select(*COLUMNS).outerjoin(Turn, Turn.id == InboxMessage.turn_id).where(InboxMessage.adapter == ADAPTER)


def rows_of(caller: Sender) -> "Select[*tuple[Any, ...]]":
    """Return the query for the tasks of this person; all peers share one credential, but not their tasks."""
    return ROW.where(InboxMessage.platform == caller.platform, InboxMessage.platform_user_id == caller.platform_user_id)


async def find_row(session: AsyncSession, task_id: str, caller: Sender) -> TaskRow | None:
    """Return the row with this id, or None if no message of this caller has it."""
    inbox_id = to_id(task_id)
    if inbox_id is None:
        return None
    row = (await session.execute(rows_of(caller).where(InboxMessage.id == inbox_id))).one_or_none()
    if row is None:
        return None
    place = Place(
        row.platform,
        server=None,
        channel=row.platform_channel_id,
        thread=row.platform_thread_id,
        is_direct=row.is_direct,
    )
    return TaskRow(
        inbox_id=row.id,
        message_id=row.platform_message_id,
        content=row.content,
        status=row.status,
        place=place,
        user_id=row.platform_user_id,
        turn_id=row.turn_id,
        changed_at=row.changed_at,
    )


async def find_task(session: AsyncSession, task_id: str, caller: Sender) -> Task | None:
    """Return the task with this id, or None if this caller has none."""
    row = await find_row(session, task_id, caller)
    if row is None:
        return None
    response = await find_response(session, row.inbox_id)
    return row.to_task(None if response is None else TaskEnd.of_response(response))


class TaskUpdates:
    """Converts the events of a turn into updates of its task."""

    def __init__(self, row: TaskRow) -> None:
        self._row = row
        self._text = ""
        # Text before a tool call is not part of the answer: the next piece of text replaces it.
        self._replaces = True
        self._message: Event | None = None

    def of_event(self, event: Event) -> Iterator[Update]:
        """Yield the updates that follow from this event."""
        match event.name:
            case "turn_started":
                yield self._row.status_update(TaskStatus(state=TaskState.TASK_STATE_WORKING))
            case "tool_call":
                self._replaces = True
            case "text_delta":
                self._replaces = self._replaces or bool(event.payload.get("reset"))
                if event.payload["text"]:
                    yield self._add(event.payload["text"])
            case "message":
                self._message = event
            case "turn_complete" if self._message is not None:
                end = TaskEnd.of_events(self._message, event)
                if end.error is None:
                    self._replaces = self._replaces or not end.content.startswith(self._text)
                    rest = end.content if self._replaces else end.content[len(self._text) :]
                    yield self._add(rest, end.file_parts, is_last=True)
                yield self._row.status_update(self._row.status_of(end), end)

    def _add(self, text: str, files: list[Part] | None = None, *, is_last: bool = False) -> Update:
        self._text = text if self._replaces else self._text + text
        update = TaskArtifactUpdateEvent(
            task_id=self._row.id,
            context_id=self._row.context_id,
            artifact=Artifact(artifact_id=ARTIFACT, name=ARTIFACT, parts=[Part(text=text), *(files or [])]),
            append=not self._replaces,
            last_chunk=is_last,
        )
        self._replaces = False
        return update
