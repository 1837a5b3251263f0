"""Output: the answer as plain text; as live text on a screen it is in `live.py`, which draws."""

import sys
from collections.abc import Mapping
from typing import Any, Protocol

from adapters.terminal.calls import describe_call
from adapters.terminal.files import to_size
from agent.journal.steps import Event
from shared.errors import Stopped
from shared.text import harmless

SMALLEST_COST = 0.0001


def describe_file(file: dict[str, Any]) -> str:
    """Return one line for a file of an answer, with its link."""
    size = to_size(file["size_bytes"])
    return harmless(f"file: {file['filename']} ({file['mime_type']}, {size}) {file['url']}")


def describe_cost(payload: Mapping[str, Any], seconds: float) -> str:
    """Return one line for the end of a turn: model, tokens, dollars where the price is known, and seconds."""
    usage = payload["usage"]
    tokens, cost = usage["input_tokens"] + usage["output_tokens"], usage["cost"]
    parts = [harmless(payload["model"])] if payload["model"] else []
    if tokens:
        parts.append(f"{tokens:,} tokens")
    if cost:
        parts.append(f"${cost:.4f}" if cost >= SMALLEST_COST else f"less than ${SMALLEST_COST}")
    return " · ".join([*parts, f"{seconds:.1f} s"]) if parts else ""


class Output(Protocol):
    """Where the conversation is written; `wants_stream` tells whether live text is useful there."""

    wants_stream: bool

    def note(self, text: str) -> None:
        """Write a line that is not part of the conversation."""
        ...

    def write(self, text: str) -> None:
        """Write the whole answer to a command."""
        ...

    def wait(self) -> None:
        """Show that an answer is expected."""
        ...

    def stop(self) -> None:
        """Show that the answer is to stop."""
        ...

    def show(self, event: Event) -> None:
        """Show one event of a turn."""
        ...

    def end(self, payload: Mapping[str, Any], seconds: float) -> None:
        """Show the end of a turn: the payload of its last event, and how long it has taken."""
        ...


class PlainOutput:
    """Answers as plain text on stdout, everything else on stderr."""

    wants_stream = False

    def note(self, text: str) -> None:
        """Write a line to stderr."""
        print(harmless(text), file=sys.stderr, flush=True)  # noqa: T201  # the terminal is this adapter's platform

    def write(self, text: str) -> None:
        """Write the whole answer to a command."""
        print(harmless(text), flush=True)  # noqa: T201  # as above

    def wait(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Say it on stderr."""
        self.note("stopping…")

    def show(self, event: Event) -> None:
        """Write the answer with its files; tool calls go to stderr."""
        if event.name == "tool_call":
            self.note(f"tool: {describe_call(event.payload)}")
        elif event.name == "message":
            self.write("\n".join([event.payload["content"], *map(describe_file, event.payload["files"])]))

    def end(self, payload: Mapping[str, Any], seconds: float) -> None:
        """Do nothing."""


class OneAnswer(PlainOutput):
    """The answer to one question as plain text on stdout, and what is none on stderr; with `is_silent` nothing.

    The model has answered where there was a call of one, also when an error has ended the turn later.
    """

    def __init__(self, *, is_silent: bool = False) -> None:
        self._is_silent = is_silent
        self._text = ""

    def show(self, event: Event) -> None:
        """Keep the answer until it is known whether it is one; tool calls go to stderr."""
        if event.name == "message" and "confirmation" not in event.payload:
            self._text = "\n".join([event.payload["content"], *map(describe_file, event.payload["files"])])
        elif event.name == "message":
            self.note(event.payload["content"])
        elif not self._is_silent:
            super().show(event)

    def end(self, payload: Mapping[str, Any], seconds: float) -> None:
        """Write the answer, or the sentence that says why there is none."""
        error = payload.get("error")
        has_answered = not error or (error != Stopped.code and payload.get("iterations"))
        if not has_answered:
            self.note(f"parley: {harmless(self._text)}")
        elif self._text and not self._is_silent:
            self.write(self._text)
