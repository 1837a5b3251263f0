"""Tells apart what a model writes: text for the reader, thinking, and blocks that call tools; piece by piece.

The same text gives the same parts, however it is cut into pieces. Nothing inside of code is a block or thinking.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Block:
    """A block as it was written: `tool`, `tool_call` or `delegate`, and what stands between its marks."""

    kind: str
    body: str


def from_json(text: str) -> Any:
    """Return the value, or `NO_JSON`. A raw line break in a string is taken as what it says."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return NO_JSON


class Scanner:
    """Reads one model answer; `kinds` are the blocks it may hold.

    `on_text` is told the reader's part as it comes, `on_reset` that what was told so far was thinking.
    """

    def __init__(
        self,
        kinds: frozenset[str] = frozenset(),
        on_text: Callable[[str], None] | None = None,
        on_reset: Callable[[], None] | None = None,
    ) -> None:
        self.blocks: list[Block] = []
        self.is_cut = False
        self._marks_of_text = in_text(kinds)
        self._on_text = on_text
        self._on_reset = on_reset
        self._buffer = ""
        self._at = 0
        self._is_closed = False
        self._said: list[str] = []
        self._untold: list[str] = []
        self._thought: list[str] = []
        self._is_taken_back = False
        self._drops_space = False
        # Of the line so far: whether it is blank, and how many ticks opened the code that it is in.
        self._is_blank_line = True
        self._open_ticks = 0
        self._body = _Body("", in_block(0))
        self._trusts_quotes = True
        self._read_text()

    @property
    def text(self) -> str:
        """Return the reader's part so far."""
        return "".join(self._said)

    @property
    def thinking(self) -> str:
        """Return the thinking so far."""
        return "".join(self._thought).strip()

    def feed(self, piece: str) -> None:
        """Take the next piece."""
        self._buffer += piece
        while self._step():
            pass
        self._buffer = self._buffer[self._at :]
        self._at = 0
        self._tell()

    def close(self) -> None:
        """Take what was held back: no more will come."""
        self._is_closed = True
        self.feed("")
        while self._body.kind and self._body.first_end is not None:
            self._end_at_first_mark()
            self.feed("")
        self.is_cut = bool(self._body.kind)

    def _step(self) -> bool:
        mark, until = self._next_mark()
        if until > self._at:
            self._take(self._buffer[self._at : until])
        if mark is None:
            self._at = until
            return False
        self._at = mark.end()
        self._on_mark(mark)
        return True

    def _next_mark(self) -> tuple[re.Match[str] | None, int]:
        mark = self._marks.whole.search(self._buffer, self._at)
        end = len(self._buffer)
        window = end - LONGEST_MARK
        if self._is_closed or (mark and mark.end() < window):
            return mark, mark.start() if mark else end
        held = self._marks.beginning.search(self._buffer, max(self._at, window))
        certain = held.start() if held else end
        if mark and mark.end() <= certain:
            return mark, mark.start()
        return None, min(certain, mark.start()) if mark else certain

    def _enter(self, marks: Marks, take: Callable[[str], None], on_mark: Callable[[re.Match[str]], None]) -> None:
        self._marks, self._take, self._on_mark = marks, take, on_mark

    def _read_text(self) -> None:
        self._enter(self._marks_of_text, self._say, self._on_text_mark)

    def _say(self, piece: str) -> None:
        _, line_break, line = piece.rpartition("\n")
        if line_break:
            self._open_ticks = 0
            self._is_blank_line = not line.strip()
        else:
            self._is_blank_line = self._is_blank_line and not line.strip()
        if self._drops_space:
            piece = piece.lstrip()
        if piece:
            self._drops_space = False
            self._said.append(piece)
            self._untold.append(piece)

    def _on_text_mark(self, mark: re.Match[str]) -> None:
        if mark["ticks"] is not None:
            self._on_ticks(mark)
        elif self._open_ticks:
            self._say(mark[0])
        elif mark["tildes"]:
            self._on_tildes(mark[0])
        elif mark["think"]:
            self._leave_out()
            self._enter(in_thinking(mark["think"].lower()), self._thought.append, self._on_thinking_end)
        elif mark["unthink"]:
            self._on_lone_thinking_end(mark[0])
        elif mark["tool"]:
            self._begin_block(TAG, 0)
        else:
            # An end without a beginning, as nested blocks leave it behind.
            self._leave_out()

    def _on_ticks(self, mark: re.Match[str]) -> None:
        count = 1 + len(mark["ticks"])
        if mark["word"] and count >= FENCE_TICKS and not self._open_ticks:
            self._begin_block(mark["word"].lower(), count)
            return
        self._at = mark.end("ticks")
        opens_code = count >= FENCE_TICKS and self._is_blank_line and not self._open_ticks
        self._say("`" * count)
        if opens_code:
            self._enter(in_opening("`"), self._say, lambda end: self._on_opening_end(end, "`", count))
        elif not self._open_ticks:
            self._open_ticks = count
        elif self._open_ticks == count:
            self._open_ticks = 0

    def _on_tildes(self, run: str) -> None:
        opens_code = self._is_blank_line
        self._say(run)
        if opens_code:
            self._enter(in_opening("~"), self._say, lambda end: self._on_opening_end(end, "~", len(run)))

    def _on_opening_end(self, end: re.Match[str], fence: str, length: int) -> None:
        self._at = end.start()
        if end[0] == "\n":
            self._enter(in_code(fence, length), self._say, self._on_code_end)
        else:
            self._open_ticks = length
            self._read_text()

    def _on_code_end(self, mark: re.Match[str]) -> None:
        self._say(mark[0])
        self._read_text()

    def _leave_out(self) -> None:
        # What stood on both sides of a part that is left out keeps one gap.
        if not self._said or self._said[-1][-1:].isspace():
            self._drops_space = True

    def _on_thinking_end(self, _mark: re.Match[str]) -> None:
        self._thought.append("\n")
        self._read_text()

    def _on_lone_thinking_end(self, tag: str) -> None:
        if not self._is_blank_line and not self._thought:
            self._say(tag)
            return
        # Some models begin to think without saying so: all until here was thinking, and blocks in it are no calls.
        self._thought += [*self._said, "\n"]
        self._said.clear()
        self._untold.clear()
        self.blocks.clear()
        self._is_taken_back = True
        self._leave_out()

    def _begin_block(self, kind: str, ticks: int) -> None:
        self._leave_out()
        self._body = _Body(kind, in_block(ticks))
        self._read_body()

    def _read_body(self) -> None:
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
        # A quote is missing somewhere, so that the end seemed to stand in a string. What follows is read again, once:
        # from here on quotes are not looked at.
        first, parts = self._body.first_end, self._body.parts
        self._trusts_quotes = False
        self._buffer = "".join(parts[(first or 0) + 1 :]) + self._buffer[self._at :]
        self._at = 0
        self._end_block("".join(parts[:first]))

    def _end_block(self, body: str) -> None:
        self.blocks.append(Block(self._body.kind, body))
        self._body = _Body("", self._body.marks)
        self._read_text()

    def _tell(self) -> None:
        if self._is_taken_back and self._on_reset is not None:
            self._on_reset()
        self._is_taken_back = False
        if self._untold and self._on_text is not None:
            self._on_text("".join(self._untold))
        self._untold.clear()


class _Body:
    # A block while it is read. `first_end` is the part that is an end mark within a string: the end of the block when
    # it turns out that this was no string.
    __slots__ = ("first_end", "is_in_string", "kind", "marks", "parts")

    def __init__(self, kind: str, marks: BlockMarks) -> None:
        self.kind = kind
        self.marks = marks
        self.parts: list[str] = []
        self.is_in_string = False
        self.first_end: int | None = None
