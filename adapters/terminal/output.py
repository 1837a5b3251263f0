"""Output: the answer as live text on a screen, or whole as plain text."""

import json
import sys
from typing import Any, Protocol

from adapters.terminal.files import to_size
from agent.journal.steps import Event
from shared.text import abbreviate, harmless

DIM, PLAIN, CLEAR_LINE = "\x1b[2m", "\x1b[0m", "\r\x1b[2K"
MOST_ARGUMENT_CHARS = 100


def describe_file(file: dict[str, Any]) -> str:
    """Return one line for a file of an answer, with its link."""
    size = to_size(file["size_bytes"])
    return harmless(f"file: {file['filename']} ({file['mime_type']}, {size}) {file['url']}")


def describe_call(payload: dict[str, Any]) -> str:
    """Return one line for a tool call."""
    arguments = harmless(json.dumps(payload["args"], ensure_ascii=False))
    return f"{harmless(payload['tool'])} {abbreviate(arguments, MOST_ARGUMENT_CHARS)}"


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


class PlainOutput:
    """Answers as plain text on stdout, everything else on stderr."""

    wants_stream = False

    def note(self, text: str) -> None:
        """Write a line to stderr."""
        print(text, file=sys.stderr, flush=True)  # noqa: T201  # the terminal is this adapter's platform

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


class LiveOutput:
    """Live text on a screen, with tool calls as dim lines."""

    wants_stream = True

    def __init__(self) -> None:
        self._visible_text = ""
        self._is_waiting = False

    def note(self, text: str) -> None:
        """Write a dim line."""
        self._end_line()
        self._write(f"{DIM}{text}{PLAIN}\n")

    def write(self, text: str) -> None:
        """Write the whole answer to a command."""
        self._end_line()
        self._write(f"{harmless(text)}\n\n")

    def wait(self) -> None:
        """Show a dim word until something else is written."""
        self._end_line()
        self._write(f"{DIM}thinking…{PLAIN}")
        self._is_waiting = True

    def show(self, event: Event) -> None:
        """Show one event of a turn."""
        match event.name:
            case "text_delta":
                if event.payload.get("reset") and self._visible_text:
                    self.note("(the answer begins anew)")
                if text := harmless(event.payload["text"]):
                    self._write(text)
                    self._visible_text += text
            case "tool_call":
                self.note(f"· {describe_call(event.payload)}")
                self.wait()
            case "tool_result" if event.payload["error"]:
                self.note(f"  {harmless(event.payload['tool'])} failed")
                self.wait()
            case "message":
                whole, preview = harmless(event.payload["content"]), self._visible_text
                # The streamed text is a preview; the stored message is authoritative.
                goes_on = bool(preview) and whole.startswith(preview.rstrip())
                if whole and not goes_on:
                    self._end_line()
                self._write(whole[len(preview) :] if goes_on else whole)
                self._visible_text = whole
                self._end_line()
                for file in event.payload["files"]:
                    self._write(f"{describe_file(file)}\n")
                self._write("\n")

    def _end_line(self) -> None:
        self._write("" if not self._visible_text or self._visible_text.endswith("\n") else "\n")
        self._visible_text = ""

    def _write(self, text: str) -> None:
        if self._is_waiting:
            self._is_waiting = False
            text = CLEAR_LINE + text
        sys.stdout.write(text)
        sys.stdout.flush()
