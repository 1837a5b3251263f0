"""The model of `DEBUG_MOCK_RESPONSES`: a scripted list instead of a provider."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agent.completions import Cause, Completion, Flight, ModelRequest, OnText, RouteFailed, ToolCall, estimate
from shared.errors import ConfigurationError
from shared.messages import Usage

MOCK = "mock"
VARIABLE = "DEBUG_MOCK_RESPONSES"


class MockCall(BaseModel):
    """A tool call of an entry; the name may be `module.tool` or `module__tool`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)

    def to_tool_call(self) -> ToolCall:
        """Return the call as a model would make it."""
        arguments = self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)
        return ToolCall(f"call_{uuid4().hex[:24]}", self.name.replace(".", "__"), arguments)


class MockReply(BaseModel):
    """One entry of the list; an `error` is a model that can't be reached."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    content: str | None = None
    tool_calls: tuple[MockCall, ...] = ()
    delay: Annotated[float, Field(ge=0)] = 0
    error: str | None = None


class ScriptedModel:
    """Plays the entries in order, counted per conversation; the last one is repeated.

    `given` is the JSON list itself or the path of a file that holds it; raises `ConfigurationError` when it is neither.
    """

    def __init__(self, given: str) -> None:
        self._replies = _parse(given)

    async def complete(
        self, name: str, request: ModelRequest, limit: float, on_text: OnText | None, flight: Flight
    ) -> Completion:
        """Answer with the entry of this position; raises `RouteFailed` for an entry with an error."""
        reply = self._replies[min(request.position, len(self._replies) - 1)]
        await asyncio.sleep(min(reply.delay, limit))
        if reply.error is not None:
            raise RouteFailed(Cause.REQUEST_REFUSED)
        text = reply.content or ""
        if on_text is not None and text:
            on_text(text)
        calls = tuple(call.to_tool_call() for call in reply.tool_calls)
        counted = estimate(request, text, calls)
        usage = Usage(counted.input_tokens, 0, counted.output_tokens, 0.0)
        return Completion(text, calls, "tool_use" if calls else "end_turn", usage, name)


def _parse(given: str) -> list[MockReply]:
    text = given.strip()
    if not text.startswith("["):
        text = _read(Path(text))
    try:
        entries = TypeAdapter(list[str | MockReply]).validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"]) or "the list"
        raise ConfigurationError(f"{VARIABLE} is wrong at {where}: {fault['msg']}. Correct or unset it.") from None
    if not entries:
        raise ConfigurationError(f"{VARIABLE} is an empty list: give it at least one reply, or unset it.")
    return [MockReply(content=entry) if isinstance(entry, str) else entry for entry in entries]


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(
            f'{VARIABLE} is neither a JSON list nor a readable file: write a list such as ["Hello."], or unset it.'
        ) from None
