"""The scanner: splits a model's answer into text for the reader, thinking, and blocks that call tools.

It reads a stream in chunks; how the text is split into chunks does not change the result. Blocks and thinking are not
recognised in code.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from agent.llm.protocols.patterns import (
    LONGEST_MARK,
    TAG,
    BlockMarks,
    Marks,
    in_block,
    in_code,
    in_opening,
    in_text,
    in_thinking,
)

FENCE_TICKS = 3
NO_JSON = object()


class Block(Struct, frozen=True):
    """A block as the model wrote it: its kind (`tool`, `tool_call` or `delegate`) and the text between its marks."""

    kind: str
    body: str


def from_json(text: str) -> Any:
    """Parse JSON; returns `NO_JSON` if it is invalid. Raw line breaks in strings are accepted."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return NO_JSON


class Scanner:
    """Scans one model answer; `kinds` are the kinds of blocks to recognise.

    `on_text` is called with new text for the reader; `on_reset` is called if the text so far turns out to be thinking.
    `passed` is the beginning of the answer, which has no mark and which the reader has.
    """

    def __init__(
        self,
        kinds: frozenset[str] = frozenset(),
        on_text: Callable[[str], None] | None = None,
        on_reset: Callable[[], None] | None = None,
        passed: str = "",
    ) -> None:
        self.blocks: list[Block] = []
        self.is_cut = False
        self._marks_of_text = in_text(kinds)
        self._output = _Output(on_text, on_reset, passed=len(passed))
        self._line = _Line()
        self._buffer = passed
        self._at = 0
        self._is_closed = False
        self._body = _Body("", in_block(0))
        self._trusts_quotes = True
        self._read_text()

    @property
    def text(self) -> str:
        """Return the text for the reader so far."""
        return "".join(self._output.shown)

    @property
    def thinking(self) -> str:
        """Return the thinking so far."""
        return "".join(self._output.thinking).strip()

    def feed(self, piece: str) -> None:
        """Read the next chunk."""
        self._buffer += piece
        while True:
            mark, until = self._next_mark()
            if until > self._at:
                self._on_chunk(self._buffer[self._at : until])
            if mark is None:
                break
            self._at = mark.end()
            self._on_mark(mark)
        self._buffer = self._buffer[until:]
        self._at = 0
        self._output.send()

    def close(self) -> None:
        """Read the text that was held back, at the end of the answer."""
        self._is_closed = True
        self.feed("")
        while self._body.kind and self._body.first_end is not None:
            self._end_at_first_mark()
            self.feed("")
        self.is_cut = bool(self._body.kind)

    def _next_mark(self) -> tuple[re.Match[str] | None, int]:
        mark = self._marks.whole.search(self._buffer, self._at)
        end = len(self._buffer)
        window = end - LONGEST_MARK
        if self._is_closed or (mark and mark.end() < window):
            return mark, mark.start() if mark else end
        match = self._marks.beginning.search(self._buffer, max(self._at, window))
        certain = match.start() if match else end
        if mark and mark.end() <= certain:
            return mark, mark.start()
        return None, min(certain, mark.start()) if mark else certain

    def _enter(self, marks: Marks, on_chunk: Callable[[str], None], on_mark: Callable[[re.Match[str]], None]) -> None:
        self._marks, self._on_chunk, self._on_mark = marks, on_chunk, on_mark

    def _read_text(self) -> None:
        self._enter(self._marks_of_text, self._add_text, self._on_text_mark)

    def _add_text(self, piece: str) -> None:
        self._line.add(piece)
        self._output.add(piece)

    def _on_text_mark(self, mark: re.Match[str]) -> None:
        match mark.lastgroup:
            case "ticks" | "word":
                self._on_ticks(mark)
            case _ if self._line.open_ticks:
                self._add_text(mark[0])
            case "tildes":
                length, opens_code = len(mark[0]), self._line.is_blank
                self._add_text(mark[0])
                if opens_code:
                    self._enter(in_opening("~"), self._add_text, lambda end: self._on_opening_end(end, "~", length))
            case "think":
                self._output.skip_part()
                self._enter(in_thinking(mark["think"].lower()), self._output.thinking.append, self._on_thinking_end)
            case "unthink" if not self._line.is_blank and not self._output.thinking:
                self._add_text(mark[0])
            case "unthink":
                # Some models omit the opening tag: then all text so far was thinking, and its blocks are not calls.
                self._output.reset()
                self.blocks.clear()
            case "tool":
                self._begin_block(TAG, 0)
            case _:
                # A closing tag without an opening one, which nested blocks can leave.
                self._output.skip_part()

    def _on_ticks(self, mark: re.Match[str]) -> None:
        count = 1 + len(mark["ticks"])
        if mark["word"] and count >= FENCE_TICKS and not self._line.open_ticks:
            self._begin_block(mark["word"].lower(), count)
            return
        self._at = mark.end("ticks")
        opens_code = count >= FENCE_TICKS and self._line.is_blank and not self._line.open_ticks
        self._add_text("`" * count)
        if opens_code:
            self._enter(in_opening("`"), self._add_text, lambda end: self._on_opening_end(end, "`", count))
        elif not self._line.open_ticks:
            self._line.open_ticks = count
        elif self._line.open_ticks == count:
            self._line.open_ticks = 0

    def _on_opening_end(self, end: re.Match[str], fence: str, length: int) -> None:
        self._at = end.start()
        if end[0] == "\n":
            self._enter(in_code(fence, length), self._add_text, self._on_code_end)
        else:
            self._line.open_ticks = length
            self._read_text()

    def _on_code_end(self, mark: re.Match[str]) -> None:
        self._add_text(mark[0])
        self._read_text()

    def _on_thinking_end(self, _mark: re.Match[str]) -> None:
        self._output.thinking.append("\n")
        self._read_text()

    def _begin_block(self, kind: str, ticks: int) -> None:
        self._output.skip_part()
        self._body = _Body(kind, in_block(ticks))
        marks = self._body.marks.outside if self._trusts_quotes else self._body.marks.plain
        self._enter(marks, self._body.parts.append, self._on_body_mark)

    def _on_body_mark(self, mark: re.Match[str]) -> None:
        body = self._body
        if not mark["end"]:
            body.parts.append(mark[0])
            if mark[0] == '"':
                body.is_in_string = not body.is_in_string
                self._marks = body.marks.inside if body.is_in_string else body.marks.outside
        elif body.is_in_string:
            body.first_end = len(body.parts) if body.first_end is None else body.first_end
            body.parts.append(mark[0])
        elif body.first_end is not None and from_json("".join(body.parts)) is NO_JSON:
            body.parts.append(mark[0])
            self._end_at_first_mark()
        else:
            self._end_block("".join(body.parts))

    def _end_at_first_mark(self) -> None:
        # A quote is missing somewhere, so that the end mark seemed to be inside a string. The text after that mark is
        # read once more; from now on quotes are ignored.
        first, parts = self._body.first_end, self._body.parts
        self._trusts_quotes = False
        self._buffer = "".join(parts[(first or 0) + 1 :]) + self._buffer[self._at :]
        self._at = 0
        self._end_block("".join(parts[:first]))

    def _end_block(self, body: str) -> None:
        self.blocks.append(Block(self._body.kind, body))
        self._body = _Body("", self._body.marks)
        self._read_text()


class _Output:
    # The text for the reader and the thinking so far, and what of the text was not sent yet; the first `passed`
    # characters were sent by somebody else.
    def __init__(self, on_text: Callable[[str], None] | None, on_reset: Callable[[], None] | None, passed: int) -> None:
        self.shown: list[str] = []
        self.thinking: list[str] = []
        self._on_text = on_text
        self._on_reset = on_reset
        self._unsent: list[str] = []
        self._passed = passed
        self._is_reset = False
        self._drops_space = False

    def add(self, piece: str) -> None:
        if self._drops_space:
            piece = piece.lstrip()
        if piece:
            self._drops_space = False
            self.shown.append(piece)
            self._unsent.append(piece)

    def skip_part(self) -> None:
        # The whitespace around a removed part must not be doubled.
        if not self.shown or self.shown[-1][-1:].isspace():
            self._drops_space = True

    def reset(self) -> None:
        # All text so far was thinking.
        self.thinking += [*self.shown, "\n"]
        self.shown.clear()
        self._unsent.clear()
        self._passed = 0
        self._is_reset = True
        self.skip_part()

    def send(self) -> None:
        if self._is_reset and self._on_reset is not None:
            self._on_reset()
        self._is_reset = False
        output = "".join(self._unsent)
        self._unsent.clear()
        text = output[self._passed :]
        self._passed -= len(output) - len(text)
        if text and self._on_text is not None:
            self._on_text(text)


class _Line:
    # The current line: whether it is blank so far, and how many ticks opened the current code span (0: none).
    __slots__ = ("is_blank", "open_ticks")

    def __init__(self) -> None:
        self.is_blank = True
        self.open_ticks = 0

    def add(self, piece: str) -> None:
        _, line_break, line = piece.rpartition("\n")
        if line_break:
            self.open_ticks = 0
        self.is_blank = (bool(line_break) or self.is_blank) and not line.strip()


class _Body:
    # A block while it is being read. `first_end`: the index of the first end mark inside a string; it is the end of the
    # block if the string turns out not to be one.
    __slots__ = ("first_end", "is_in_string", "kind", "marks", "parts")

    def __init__(self, kind: str, marks: BlockMarks) -> None:
        self.kind = kind
        self.marks = marks
        self.parts: list[str] = []
        self.is_in_string = False
        self.first_end: int | None = None
