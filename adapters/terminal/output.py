"""Output: the answer as live text on a screen, or whole as plain text."""

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text

from adapters.terminal.calls import describe_call, to_sentence
from adapters.terminal.files import to_size
from adapters.terminal.markdown import MarkdownScreen, open_console
from agent.journal.steps import Event
from shared.errors import Stopped
from shared.text import harmless
from shared.tools import Words

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


class LiveOutput:
    """Markdown on a screen while it is written, with tool calls and the cost as dim lines.

    `words` tell by tools' names what their calls do. With `is_conversation` an empty line stands before what follows.
    """

    wants_stream = True

    def __init__(
        self,
        console: Console | None = None,
        *,
        words: Mapping[str, Words | None] = MappingProxyType({}),
        is_conversation: bool = True,
    ) -> None:
        self._console = console or open_console()
        self._screen = MarkdownScreen(self._console)
        self._words = words
        self._is_conversation = is_conversation
        self._calls: dict[str, Mapping[str, Any]] = {}

    def note(self, text: str) -> None:
        """Write a dim line."""
        self._screen.end()
        self._console.print(Text(harmless(text), style="dim"))

    def write(self, text: str) -> None:
        """Write the whole answer to a command, which is no Markdown."""
        self._screen.end()
        self._console.print(Text(harmless(text)), soft_wrap=True)
        self._leave_room()

    def wait(self) -> None:
        """Show a dim word until something else is written."""
        self._screen.end()
        self._screen.show_line("thinking…")

    def show(self, event: Event) -> None:
        """Show one event of a turn."""
        match event.name:
            case "text_delta":
                if event.payload.get("reset") and not self._screen.is_empty:
                    self.note("(the answer begins anew)")
                if text := harmless(event.payload["text"]):
                    self._screen.add(text)
            case "tool_call":
                self._calls[event.payload["id"]] = event.payload
                self._screen.end()
                self._screen.show_line(f"· {self._to_sentence(event.payload)}…")
            case "tool_result" if event.payload.get("needs_approval"):
                # The question follows.
                self.wait()
            case "tool_result" if (call := self._calls.pop(event.payload["id"], None)) is not None:
                has_failed = event.payload["error"]
                sentence = self._to_sentence(call, is_done=not has_failed)
                self.note(f"✗ {sentence}: failed" if has_failed else f"· {sentence}")
                self.wait()
            case "message":
                # The streamed text is a preview; the stored message is authoritative.
                whole = harmless(event.payload["content"])
                if not self._screen.complete(whole):
                    self._console.print()
                    self._screen.complete(whole)
                for file in event.payload["files"]:
                    # The terminal breaks the line, so that the link stays whole.
                    self._console.print(Text(describe_file(file)), soft_wrap=True)

    def end(self, payload: Mapping[str, Any], seconds: float) -> None:
        """Write what the answer has cost."""
        self._screen.end()
        if line := describe_cost(payload, seconds):
            self._console.print(Text(line, style="dim"))
        self._leave_room()

    def _to_sentence(self, call: Mapping[str, Any], *, is_done: bool = False) -> str:
        return to_sentence(self._words.get(call["tool"]), call, is_done=is_done)

    def _leave_room(self) -> None:
        if self._is_conversation:
            self._console.print()
