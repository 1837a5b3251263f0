"""The request and answer types of model calls, the same for every provider, and upper estimates of their tokens."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Literal, Protocol
from uuid import uuid4

from msgspec import Struct, field

from shared.messages import EstimatedUsage, Sampling, Usage
from shared.text import clean, count_tokens

TOKENS_PER_MESSAGE = 4
# The highest token count of any provider for an image of the size that we send.
IMAGE_TOKENS = 1600

Stop = Literal["end_turn", "tool_use", "max_tokens"]
OnText = Callable[[str], None]

# Some providers refuse a prompt with tool calls in its history when no tool is offered.
NO_TOOL = {
    "type": "function",
    "function": {"name": "none", "description": "Never call this.", "parameters": {"type": "object", "properties": {}}},
}


class ToolCall(Struct, frozen=True):
    """A tool call as the model wrote it: the wire name and the raw JSON text of the arguments."""

    id: str
    name: str
    arguments: str


def to_tool_calls(triples: Iterable[tuple[str | None, str | None, str | None]]) -> tuple[ToolCall, ...]:
    """Return the tool calls of (id, name, arguments) tuples, cleaned; missing or repeated ids are replaced."""
    calls: dict[str, ToolCall] = {}
    for call_id, name, arguments in triples:
        unique = call_id if call_id and call_id not in calls else f"call_{uuid4().hex[:24]}"
        calls[unique] = ToolCall(unique, clean(name or ""), clean(arguments or "") or "{}")
    return tuple(calls.values())


class ModelRequest(Struct, frozen=True):
    """One request to a model, in the OpenAI shape.

    `models` are tried before those of the settings. `position` is the number of model calls in this conversation's
    journal. `tokens` is an upper estimate of prompt and answer, None if not known. `images` has `data:` URLs by file
    id; they replace the placeholders in the messages. With an `answer_schema` the model answers only with text, JSON of
    that schema. A `writer` converts the request to text for every route.
    """

    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]
    max_tokens: int
    models: tuple[str, ...] = ()
    position: int = 0
    sampling: Sampling = field(default_factory=Sampling)
    tokens: int | None = None
    answer_schema: Mapping[str, Any] | None = None
    writer: "RequestWriter | None" = None
    images: Mapping[int, str] = field(default_factory=dict)


class RequestWriter(Protocol):
    """Converts a request to text, for models without tool calling."""

    def write(self, request: ModelRequest) -> ModelRequest:
        """Return the request with tools, tool calls and tool results as text."""
        ...


class RejectedCall(Struct, frozen=True):
    """A paid attempt without a usable answer."""

    model: str
    usage: Usage


class RouteAttempt(Struct, frozen=True):
    """One attempt on a route: `answered`, the `Cause` of its failure, or why the route was passed over.

    `is_pruned`: parts of the prompt were left out, because it was longer than the model's window.
    """

    route: str
    outcome: str
    seconds: float = 0.0
    status: int | None = None
    is_pruned: bool = False


class Completion(Struct, frozen=True):
    """One model answer; `rejected` are the paid attempts before it, `thinking` is not part of `text`."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    stop: Stop
    usage: Usage
    model: str
    rejected: tuple[RejectedCall, ...] = ()
    thinking: str = ""


class Cause(StrEnum):
    """Why an attempt on a route failed."""

    RATE_LIMITED = "rate_limited"
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    MALFORMED = "malformed"
    EMPTY = "empty"
    CUT = "cut"
    TOO_LONG = "too_long"
    REQUEST_REFUSED = "request_refused"
    FILTERED = "filtered"
    IMAGES_REFUSED = "images_refused"
    KEY_REFUSED = "key_refused"
    MODEL_UNKNOWN = "model_unknown"
    OUT_OF_CREDIT = "out_of_credit"


class RouteFailed(Exception):
    """One attempt on one route gave no usable answer; `usage` is set if it has to be paid nevertheless.

    For a prompt that is too long, `window` is the model's context window and `counted` the prompt's size, both in
    tokens, if the provider reports them.
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


class AttemptState(Struct):
    """One running attempt, which has `limit` seconds, and streams its text to `on_text` if that is set.

    `tries` counts the attempts of this call on this route, from 1. `usage` is set if the attempt is cancelled after the
    request was sent: an estimate of what the provider will charge.
    """

    limit: float
    on_text: OnText | None = None
    tries: int = 1
    usage: Usage | None = None


class Model(Protocol):
    """The model behind a route."""

    async def complete(self, name: str, request: ModelRequest, attempt: AttemptState) -> Completion:
        """Return the answer within `attempt.limit` seconds; streams if `on_text` is set; raises `RouteFailed`."""
        ...


class CallObserver(Struct, frozen=True):
    """The callbacks of a model call over all its attempts.

    `on_text` receives the streamed text; `on_reset` is called if the text so far belongs to a failed attempt. `spent`
    collects the paid attempts without an answer, also if the call is cancelled. `pay` is called before an attempt that
    follows one of those: it settles them, removes them from `spent`, and raises a `Refusal` if the budget does not
    admit another attempt. `attempts` collects all of them, and the routes that were passed over.
    """

    on_text: OnText | None = None
    on_reset: Callable[[], None] | None = None
    spent: list[RejectedCall] = field(default_factory=list)
    pay: Callable[[], Awaitable[None]] | None = None
    attempts: list[RouteAttempt] = field(default_factory=list)


def count_prompt(messages: Iterable[dict[str, Any]]) -> int:
    """Return an upper estimate of the tokens of messages or tools in the OpenAI shape."""
    # The model sees only a tool's function, without its wrapper; the JSON is compact, as it is sent.
    payloads = [message.get("function", message) for message in messages]
    texts = (json.dumps(payload, ensure_ascii=False, separators=(",", ":")) for payload in payloads)
    contents = (payload.get("content") for payload in payloads)
    parts = (part for content in contents if isinstance(content, list) for part in content)
    images = sum(1 for part in parts if part["type"] == "image_url")
    return TOKENS_PER_MESSAGE * len(payloads) + sum(map(count_tokens, texts)) + IMAGE_TOKENS * images


def estimate(request: ModelRequest, text: str = "", tool_calls: tuple[ToolCall, ...] = ()) -> EstimatedUsage:
    """Return an upper estimate of the usage of an answer, for providers that do not report it."""
    output = text + "".join(call.name + call.arguments for call in tool_calls)
    return EstimatedUsage(count_prompt(request.messages) + count_prompt(request.tools), 0, count_tokens(output))
