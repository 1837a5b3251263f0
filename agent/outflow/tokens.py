"""Cuts Markdown into what programs may read as links: lines into code and prose, prose into tokens.

Programs read Markdown differently, so this is not the grammar of one of them. A `Place` says how a line is read, as far
as all agree, and what follows from the line for the next one.
"""

import re
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from shared.text import fence_after, fence_mark

# The longest construct that is read as one. In a stream, the text behind an open one is held back up to this length.
MAX_SPAN = 600
MAX_SCHEME = 31
SCHEME_END = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]{{0,{MAX_SCHEME - 1}}}$")
# A colon and two slashes, each as it is, escaped or as a character reference.
ADDRESS_MARK = r"(?:\\?:|&(?:#0*58|#[xX]0*3[aA]|colon);)(?:\\?/|&(?:#0*47|#[xX]0*2[fF]|sol);){2}"
TOKEN = re.compile(
    r"(?P<image>(?<!!)!+\[)|(?P<link>\]\(\s*)|(?P<definition>\]:\s*)|(?P<tag><(?=[A-Za-z/!?]))"
    rf"|(?P<address>{ADDRESS_MARK})"
)
TICKS = re.compile(r"`+")
IMAGE_END = re.compile(r"!\[[^\[\]\n]*(?:\[|\](?:\([^()\n]*\)|[^(]))")
TAG_END = re.compile(r"[<>]")
OPEN_END = re.compile(r"\](?:[(:]\s*<?)?$")


class Place(Struct, frozen=True):
    """Where a line stands.

    `fence`: the line that opened the code block around it; `is_blank`: nothing but line breaks has followed that line;
    `is_agreed`: all programs take the code blocks so far for code blocks; `is_open`: a backtick of this paragraph that
    nothing closes may change what the following ones mean.
    """

    fence: str = ""
    is_blank: bool = False
    is_agreed: bool = True
    is_open: bool = False

    def after(self, line: str, *, is_whole: bool) -> "Place":
        """Return the place behind a line; only one that was read as a whole opens or closes a code block."""
        fence = fence_after(self.fence, line) if is_whole else self.fence
        if not fence and not self.fence:
            return replace(self, is_open=self.is_open and bool(line.strip()))
        mark = line.strip() if self.fence else fence_mark(fence)
        # Discord does not end a block that holds nothing but line breaks where it is closed.
        is_common = mark == "```" and not (self.is_blank and not fence)
        is_agreed = self.is_agreed and (fence == self.fence or is_common)
        return Place(fence, is_blank=not self.fence or (self.is_blank and not line), is_agreed=is_agreed)


class Kind(StrEnum):
    """What a token is; the names are those of the groups in `TOKEN`."""

    TEXT = "text"
    IMAGE = "image"
    LINK = "link"
    DEFINITION = "definition"
    TAG = "tag"
    ADDRESS = "address"


KINDS = {kind.value: kind for kind in Kind}


class Token(NamedTuple):
    """What stands in a text between two places; an address begins with its scheme, which ends at `scheme_end`."""

    kind: Kind
    text: str
    start: int
    end: int
    scheme_end: int = 0

    def __str__(self) -> str:
        return self.text[self.start : self.end]


def next_token(text: str, at: int) -> Token | None:
    """Return the first token at or behind a place, text aside; None if there is none."""
    match = TOKEN.search(text, at)
    if match is None:
        return None
    kind, start, end = KINDS[str(match.lastgroup)], *match.span()
    if kind is not Kind.ADDRESS:
        return Token(kind, text, start, end=end)
    scheme = SCHEME_END.search(text, max(at, start - MAX_SCHEME), start)
    return Token(kind, text, start if scheme is None else scheme.start(), end=end, scheme_end=start)


def split_code(text: str, place: Place) -> tuple[list[tuple[bool, int, int]], Place]:
    """Cut a part of a line into code and prose, as far as all programs agree.

    Returns spans as whether it is code, its start and its end; and the place behind the part.
    """
    spans, at = [], 0
    while not place.is_open and (ticks := TICKS.search(text, at)) is not None:
        end = find_code_end(text, ticks)
        is_closed = end >= 0 and text[ticks.start() - 1 : ticks.start()] != "\\"
        # A column of a table ends code.
        if not is_closed or "|" in text[ticks.start() : end]:
            place = replace(place, is_open=True, is_agreed=place.is_agreed and is_closed)
            break
        spans += [(False, at, ticks.start()), (True, ticks.start(), end)]
        at = end
    # These may be a fence for some.
    is_agreed = place.is_agreed and "```" not in text
    return [*spans, (False, at, len(text))], replace(place, is_agreed=is_agreed)


def find_code_end(text: str, opening: re.Match[str]) -> int:
    """Return the end of the code that these backticks open in this line; -1 if it is not near."""
    for match in TICKS.finditer(text, opening.end(), opening.end() + MAX_SPAN):
        if len(match[0]) == len(opening[0]):
            return match.end()
    return -1


def find_open(text: str, end: int) -> int:
    """Return where the construct begins that may go on behind the part of a line up to `end`; -1 if there is none."""
    far, part = max(0, end - MAX_SPAN), text[:end]
    tag, image = part.rfind("<", far), part.rfind("![", far)
    starts = [
        # A second bracket before the first is closed decides what the first one is.
        start
        for start, closing in ((tag, TAG_END.search(text, tag + 1)), (image, IMAGE_END.match(text, max(0, image))))
        if start >= 0 and (closing is None or (closing.end() > end and closing[0][-1] not in "<["))
    ]
    if (last := OPEN_END.search(part, far)) is not None:
        starts.append(last.start())
    at = 0
    while (ticks := TICKS.search(part, at)) is not None:
        at = find_code_end(part, ticks)
        if at < 0:
            starts += [ticks.start()] if len(part) - ticks.start() <= MAX_SPAN else []
            break
    return min(starts, default=-1)
