"""What the agent's own API answers with, and the events of a turn that it streams, for its description."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from shared.messages import AskedConfirmation, ReplyFile, Usage


class TurnEvent(TypedDict):
    """What each event has: the turn, and its place among the turn's events."""

    turn_id: int
    seq: int


class UserMessage(TurnEvent):
    """The message that is answered."""

    content: str
    speaker: str | None


class TurnStarted(TurnEvent):
    """The turn has begun, in this conversation."""

    conversation_id: int
    user_id: int


class Thinking(TurnEvent):
    """What the model has thought."""

    text: str


class TextDelta(TurnEvent):
    """A piece of the text; with `reset` the text of this step is dropped first."""

    text: str
    reset: NotRequired[bool]


class ToolCall(TurnEvent):
    """The model calls a tool."""

    id: str
    tool: str
    args: dict[str, Any]


class ToolResult(TurnEvent):
    """What the tool has answered; with `needs_approval` it waits for a yes."""

    id: str
    tool: str
    result: Any
    error: bool
    needs_approval: NotRequired[bool]


class Command(TypedDict):
    """A command to offer below the message, as a button."""

    label: str
    line: str


class Message(TurnEvent):
    """The whole reply."""

    content: str
    files: list[ReplyFile]
    choices: NotRequired[list[str]]
    commands: NotRequired[list[Command]]
    confirmation: NotRequired[AskedConfirmation]


class TurnComplete(TurnEvent):
    """The end, which is always the last event unless `error` is."""

    iterations: int
    usage: Usage
    finished: bool
    error: str | None
    model: str | None
    action: NotRequired[str]


class StreamError(TypedDict):
    """The stream ends, the turn goes on: ask again with the same `platform_event_id`."""

    code: str
    message: str


class StoredEvent(TypedDict):
    """An event as it is stored; `id` is the place to read on from."""

    id: int
    turn_id: int
    seq: int
    name: str
    payload: dict[str, Any]


class StoredEvents(TypedDict):
    """A page of stored events, oldest first."""

    events: list[StoredEvent]


class Health(TypedDict):
    """The process runs."""

    status: Literal["ok"]


class Readiness(TypedDict):
    """Messages are accepted, and so many workers answer them."""

    status: Literal["ready"]
    workers: int
    configured_workers: NotRequired[int]
    message: NotRequired[str]


# By the name in `event:`. Agents that are asked meanwhile add `delegation_request` and `delegation_response`.
EVENTS: dict[str, Any] = {
    "user_message": UserMessage,
    "turn_started": TurnStarted,
    "thinking": Thinking,
    "text_delta": TextDelta,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "message": Message,
    "turn_complete": TurnComplete,
    "error": StreamError,
}
