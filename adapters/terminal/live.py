"""Output on a screen: the answer as Markdown while it is written."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from adapters.terminal.calls import to_sentence
from adapters.terminal.output import describe_cost, describe_file
from agent.journal.steps import Event
from shared.text import harmless

if TYPE_CHECKING:
    from rich.console import Console

    from adapters.terminal.markdown import MarkdownScreen
    from shared.tools import Words


class LiveOutput:
    """Markdown on a screen while it is written, with tool calls and the cost as dim lines.

    `find_words` tells by a tool's name what its calls do. With `is_conversation` an empty line follows each answer.
    """

    wants_stream = True

    def __init__(
        self,
        console: "Console | None" = None,
        *,
        find_words: Callable[[str], "Words | None"] = lambda _: None,
        is_conversation: bool = True,
    ) -> None:
        self._console = console
        self._find_words = find_words
        self._is_conversation = is_conversation
        self._calls: dict[str, Mapping[str, Any]] = {}

    @cached_property
    def _screen(self) -> "MarkdownScreen":
        # Imported here: it takes a fifth of the time that the program needs, and the first prompt waits for none of it.
        from adapters.terminal.markdown import MarkdownScreen, open_console

        return MarkdownScreen(self._console or open_console())

    def note(self, text: str) -> None:
        """Write a dim line."""
        self._screen.write_note(harmless(text))

    def write(self, text: str) -> None:
        """Write the whole answer to a command, which is no Markdown."""
        self._screen.write_plain(harmless(text))
        self._leave_room()

    def wait(self) -> None:
        """Show a dim word until something else is written."""
        self._screen.end()
        self._screen.show_line("thinking…")

    def stop(self) -> None:
        """Show a dim word below the answer, which comes once more, with its end."""
        self._screen.show_below("stopping…")

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
                    self._screen.write_plain()
                    self._screen.complete(whole)
                for file in event.payload["files"]:
                    self._screen.write_plain(describe_file(file))

    def end(self, payload: Mapping[str, Any], seconds: float) -> None:
        """Write what the answer has cost."""
        self._screen.end()
        if line := describe_cost(payload, seconds):
            self._screen.write_note(line)
        self._leave_room()

    def _to_sentence(self, call: Mapping[str, Any], *, is_done: bool = False) -> str:
        return to_sentence(self._find_words(call["tool"]), call, is_done=is_done)

    def _leave_room(self) -> None:
        if self._is_conversation:
            self._screen.write_plain()
