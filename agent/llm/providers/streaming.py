"""Assembles the chunks of a streamed answer."""

import json
from collections.abc import AsyncIterator
from typing import Any

from msgspec import Struct, field

from agent.llm.completions import OnText, ToolCall, to_tool_calls
from shared.text import clean

# No real answer is this long; the limit protects the memory from an endless stream.
MOST_CHARS = 8_000_000
# What an invalid chunk raises, litellm's parser for one of a provider's own format.
STREAM_FAULTS = (RuntimeError, ValueError, TypeError, LookupError, AttributeError)


class _Fields(dict[str, Any]):
    # A JSON object whose fields are attributes, None where it has none, as those of litellm's chunks are.
    __getattr__ = dict.get


class _Call(Struct):
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class StreamAccumulator:
    """Collects the chunks of one answer in the OpenAI format; complete once a chunk has a finish reason."""

    def __init__(self, on_text: OnText) -> None:
        self.usage: Any = None
        self.finish_reason: str | None = None
        self._on_text = on_text
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_Call] = []
        self._open: dict[int, _Call] = {}
        self._size = 0

    @property
    def text(self) -> str:
        """Return the text so far."""
        return clean("".join(self._text))

    @property
    def thinking(self) -> str:
        """Return the thinking that the provider sends separately from the text."""
        return clean("".join(self._thinking))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls so far."""
        calls = ((call.id, call.name, "".join(call.arguments)) for call in self._calls)
        return to_tool_calls(calls) if self._calls else ()

    @property
    def written(self) -> tuple[str, tuple[ToolCall, ...]]:
        """Return all output so far, for estimating its tokens: thinking and text, and the tool calls."""
        return self.thinking + self.text, self.tool_calls

    async def add_lines(self, lines: AsyncIterator[str], faults: tuple[type[Exception], ...]) -> None:
        """Add all lines of a stream; one of the `faults` breaks it off, so that it has no end."""
        try:
            async for line in lines:
                self.add_line(line)
        except faults:
            self.finish_reason = None

    def add_line(self, line: str) -> None:
        """Add a line of a stream in OpenAI's format; raises `ValueError` if it reports an error."""
        name, _, data = line.partition(":")
        if name != "data" or data.strip() == "[DONE]":
            return
        try:
            chunk = json.loads(data, object_hook=_Fields)
        except ValueError:
            # Comments of proxies, and whatever else is no JSON; an answer that lacks its end is not taken for complete.
            return
        if not isinstance(chunk, _Fields) or chunk.get("error"):
            raise ValueError("the stream reports an error")
        self.add(chunk)

    def add(self, chunk: Any) -> None:
        """Add one chunk."""
        self.usage = getattr(chunk, "usage", None) or self.usage
        for choice in (chunk.choices or ())[:1]:
            self.finish_reason = choice.finish_reason or self.finish_reason
            if choice.delta is None:
                continue
            if choice.delta.content:
                self._keep(self._text, choice.delta.content)
                self._on_text(clean(choice.delta.content))
            if thought := getattr(choice.delta, "reasoning_content", None) or getattr(choice.delta, "reasoning", None):
                self._keep(self._thinking, thought)
            for piece in choice.delta.tool_calls or ():
                index, call_id = piece.index or 0, str(piece.id or "")
                call = self._open.get(index)
                # Some servers send index 0 for every call, so a different id also starts a new call.
                if call is None or (call_id and call.id and call_id != call.id):
                    call = _Call()
                    self._open[index] = call
                    self._calls.append(call)
                call.id = call.id or call_id
                if piece.function is not None:
                    call.name = call.name or str(piece.function.name or "")
                    arguments = piece.function.arguments or ""
                    self._keep(call.arguments, json.dumps(arguments) if isinstance(arguments, dict) else arguments)

    def _keep(self, pieces: list[str], piece: str) -> None:
        if not isinstance(piece, str):
            raise TypeError("a piece of the answer is no text")
        self._size += len(piece)
        if self._size > MOST_CHARS:
            raise ValueError("the answer has no end")
        pieces.append(piece)
