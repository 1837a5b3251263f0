"""Requests to a model and its answers, the same for every model."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from agent.llm.tokens import count_prompt, count_tokens
from shared.messages import Usage

Stop = Literal["end_turn", "tool_use", "max_tokens"]
OnText = Callable[[str], None]

# Some providers refuse a prompt with tool calls in its history when no tool is offered.
NO_TOOL = {
    "type": "function",
    "function": {"name": "none", "description": "Never call this.", "parameters": {"type": "object", "properties": {}}},
}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model wrote it: the wire name and the raw JSON text of the arguments."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request to a model, in the OpenAI shape.

    `models` are tried before those of the settings; `position` counts the model calls that this conversation's journal
    already holds. `tokens` is an upper estimate of prompt and answer, where there is one already. `images` are `data:`
    addresses by the id of the file, for the places that messages keep for them. With an `answer_schema`
    the model answers in text alone, JSON of that schema; a `writer` then puts the request into words for every route.
    """

    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]
    max_tokens: int
    models: tuple[str, ...] = ()
    position: int = 0
    temperature: float | None = None
    tokens: int | None = None
    answer_schema: Mapping[str, Any] | None = None
    writer: "RequestWriter | None" = None
    images: Mapping[int, str] = field(default_factory=dict)


class RequestWriter(Protocol):
    """Puts a request into words."""

    def write(self, request: ModelRequest) -> ModelRequest:
        """Return the request in words."""
        ...


@dataclass(frozen=True, slots=True)
class RejectedCall:
    """An attempt that cost something and gave no usable answer."""

    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Completion:
    """One model answer, with the rejected attempts before it; `thinking` is not part of the text."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    stop: Stop
    usage: Usage
    model: str
    rejected: tuple[RejectedCall, ...] = ()
    thinking: str = ""


class Cause(StrEnum):
    """Why a route gave no answer."""

    RATE_LIMITED = "rate_limited"
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    MALFORMED = "malformed"
    EMPTY = "empty"
    CUT = "cut"
    TOO_LONG = "too_long"
    REQUEST_REFUSED = "request_refused"
    IMAGES_REFUSED = "images_refused"
    KEY_REFUSED = "key_refused"
    MODEL_UNKNOWN = "model_unknown"
    OUT_OF_CREDIT = "out_of_credit"


class RouteFailed(Exception):
    """One attempt on one route gave no usable answer; `usage` is set when it was paid for all the same.

    For a prompt that is too long: the model's `window` and the tokens that it `counted`, if the provider named them.
    """

    def __init__(
        self,
        cause: Cause,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        usage: Usage | None = None,
        window: int | None = None,
        counted: int | None = None,
    ) -> None:
        self.cause = cause
        self.status = status
        self.retry_after = retry_after
        self.usage = usage
        self.window = window
        self.counted = counted
        super().__init__(cause.value)


@dataclass(slots=True)
class AttemptState:
    """One attempt while it runs: it has `limit` seconds, and streams its text to `on_text` if that is given.

    `tries` counts the attempts of this call on its route, from 1. `usage` is set when the attempt is cancelled after
    it was sent: what the provider will bill for an answer that nobody receives.
    """

    limit: float
    on_text: OnText | None = None
    tries: int = 1
    usage: Usage | None = None


class Model(Protocol):
    """The model behind a route."""

    async def complete(self, name: str, request: ModelRequest, attempt: AttemptState) -> Completion:
        """Answer within the attempt's time, and stream the text if the attempt asks for it; raises `RouteFailed`."""
        ...


@dataclass(frozen=True, slots=True)
class CallObserver:
    """Who follows a model call over all its attempts.

    `on_text` receives the text as it is streamed; `on_reset` says that the text so far belongs to a failed attempt.
    `spent` collects the attempts that cost something and gave no answer, also when the call is cancelled. `pay` is
    called before an attempt that follows one of those: it settles them, removes them from `spent`, and raises the
    `Refusal` when nothing is left for another attempt.
    """

    on_text: OnText | None = None
    on_reset: Callable[[], None] | None = None
    spent: list[RejectedCall] = field(default_factory=list)
    pay: Callable[[], Awaitable[None]] | None = None


def estimate(request: ModelRequest, text: str = "", tool_calls: tuple[ToolCall, ...] = ()) -> Usage:
    """Return an upper estimate of what an answer used, for when the provider did not count."""
    written = text + "".join(call.name + call.arguments for call in tool_calls)
    return Usage(count_prompt(request.messages) + count_prompt(request.tools), 0, count_tokens(written))
