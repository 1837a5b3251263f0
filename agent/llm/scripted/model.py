"""The scripted model of `DEBUG_MOCK_RESPONSES`: answers from a list instead of a provider."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agent.llm.built_in import BuiltInModel
from agent.llm.completions import AttemptState, Cause, Completion, ModelRequest, RouteFailed, ToolCall, estimate
from agent.llm.protocols.patterns import CALL, DELEGATE, TAG
from agent.llm.protocols.protocol import Protocol
from shared.errors import ConfigurationError
from shared.messages import Usage

VARIABLE = "DEBUG_MOCK_RESPONSES"
PIECE_CHARS = 16
# The values of `error`; any other text means a refused request.
ERRORS = {
    "rate_limit": Cause.RATE_LIMITED,
    "timeout": Cause.TIMED_OUT,
    "unreachable": Cause.UNREACHABLE,
    "malformed": Cause.MALFORMED,
    "empty": Cause.EMPTY,
    "too_long": Cause.TOO_LONG,
    "bad_request": Cause.REQUEST_REFUSED,
    "bad_key": Cause.KEY_REFUSED,
    "unknown_model": Cause.MODEL_UNKNOWN,
    "no_credit": Cause.OUT_OF_CREDIT,
}


class ScriptedCall(BaseModel):
    """A tool call of an entry; its name is `module.tool` or `module__tool`."""

    # Built with the first answer that somebody has written down.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)

    def to_tool_call(self) -> ToolCall:
        """Return the call as a model would make it."""
        arguments = self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)
        return ToolCall(f"call_{uuid4().hex[:24]}", self.name.replace(".", "__"), arguments)


class ScriptedReply(BaseModel):
    """One entry of the list.

    `error` or `cut` applies to the first `times` attempts, or to all attempts if there is no content and no tool call.
    `delay` and `pace` are seconds: before the answer, and after each streamed piece. `cut` is a number of characters.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    content: str | None = None
    tool_calls: tuple[ScriptedCall, ...] = ()
    delay: Annotated[float, Field(ge=0)] = 0
    pace: Annotated[float, Field(ge=0)] = 0
    error: str | None = None
    cut: Annotated[int, Field(ge=0)] | None = None
    times: Annotated[int, Field(ge=1)] = 1

    def fails(self, tries: int) -> bool:
        """Return whether this attempt (counted from 1) fails."""
        if self.error is None and self.cut is None:
            return False
        is_all = not self.content and not self.tool_calls
        return is_all or tries <= self.times


class ScriptedModel:
    """Answers with the entries in order, counted per conversation; the last one is repeated.

    `given` is a JSON list or the path of a file that contains one; raises `ConfigurationError` if it is neither.
    """

    def __init__(self, source: str) -> None:
        text = source.strip()
        if not text.startswith("["):
            try:
                text = Path(text).read_text("utf-8")
            except (OSError, UnicodeDecodeError):
                raise ConfigurationError(
                    f"{VARIABLE} is neither a JSON list nor a readable file: "
                    'write a list such as ["Hello."], or unset it.'
                ) from None
        try:
            entries = TypeAdapter(list[str | ScriptedReply]).validate_json(text)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in fault["loc"]) or "the list"
            raise ConfigurationError(f"{VARIABLE} is wrong at {where}: {fault['msg']}. Correct or unset it.") from None
        if not entries:
            raise ConfigurationError(f"{VARIABLE} is an empty list: give it at least one reply, or unset it.")
        self._replies = [ScriptedReply(content=entry) if isinstance(entry, str) else entry for entry in entries]

    async def complete(self, name: str, request: ModelRequest, attempt: AttemptState) -> Completion:
        """Return the entry at the request's position; raises `RouteFailed` if the entry says so."""
        reply = self._replies[min(request.position, len(self._replies) - 1)]
        pieces: list[str] = []
        try:
            await asyncio.sleep(min(reply.delay, attempt.limit))
            is_failing = reply.fails(attempt.tries)
            if is_failing and reply.error is not None:
                raise RouteFailed(ERRORS.get(reply.error, Cause.REQUEST_REFUSED))
            text = reply.content or ""
            beginning = text[: reply.cut] if is_failing else text
            if attempt.on_text is None:
                pieces.append(beginning)
                await asyncio.sleep(reply.pace * len(beginning) / PIECE_CHARS)
            else:
                for start in range(0, len(beginning), PIECE_CHARS):
                    pieces.append(beginning[start : start + PIECE_CHARS])
                    attempt.on_text(pieces[-1])
                    await asyncio.sleep(reply.pace)
            if is_failing:
                raise RouteFailed(Cause.CUT, usage=_estimated(request, pieces))
        except asyncio.CancelledError:
            attempt.usage = _estimated(request, pieces)
            raise
        calls = tuple(call.to_tool_call() for call in reply.tool_calls)
        counted = estimate(request, "".join(pieces), calls)
        usage = Usage(counted.input_tokens, 0, counted.output_tokens, cost=0.0)
        return Completion(text, tool_calls=calls, stop="tool_use" if calls else "end_turn", usage=usage, model=name)


def _estimated(request: ModelRequest, pieces: Sequence[str]) -> Usage:
    return replace(estimate(request, "".join(pieces)), cost=0.0)


SCRIPTED_MODEL = BuiltInModel(
    "mock",
    lambda settings, _clock: None if (source := settings.debug_mock_responses) is None else ScriptedModel(source),
    # Scripted texts may contain blocks of every text protocol.
    Protocol(frozenset({TAG, CALL, DELEGATE})),
    is_only=True,
)
