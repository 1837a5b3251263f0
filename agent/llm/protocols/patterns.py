"""The regular expressions of the scanner: complete marks by context, and beginnings that a later chunk may complete.

Every mark has a maximum length, so that a stream is held back only a little and one pass over the text is enough.
"""

import re
from collections.abc import Iterable
from functools import cache

from msgspec import Struct

TAG = "tool"
CALL, DELEGATE = FENCES = ("tool_call", "delegate")
THINKING = ("think", "thinking", "reasoning")
# The maximum length of a mark, and of a run of ticks: a longer run is read as several runs.
LONGEST_MARK = 80
LONGEST_RUN = 32
# Possessive quantifiers: all ticks or tildes at once, without backtracking.
MORE_TICKS = f"`{{0,{LONGEST_RUN - 1}}}+"
MORE_TILDES = f"~{{0,{LONGEST_RUN - 1}}}+"
# Text without these characters has nothing but text in it.
BEGINS = re.compile("[<`]")
# Matches nowhere.
NOTHING = "(?!)"
FLAGS = re.IGNORECASE | re.ASCII


class Marks(Struct, frozen=True):
    """The marks of one context; `beginning` matches an incomplete mark at the end of the text."""

    whole: re.Pattern[str]
    beginning: re.Pattern[str]


def _beginnings(words: Iterable[str]) -> str:
    return "|".join(sorted({word[:length] for word in words for length in range(1, len(word))}))


def _either(words: Iterable[str]) -> str:
    return "|".join(words) or NOTHING


def _marks(whole: str, beginning: str) -> Marks:
    return Marks(re.compile(whole, FLAGS | re.DOTALL), re.compile(rf"(?:{beginning})\Z", FLAGS))


@cache
def in_text(kinds: frozenset[str]) -> Marks:
    """Return the marks in ordinary text: of thinking, of code, and of these kinds of blocks."""
    tags = (TAG,) if TAG in kinds else ()
    fences = tuple(word for word in FENCES if word in kinds)
    # Each begins with a literal character, which makes the search several times faster.
    whole = (
        rf"<(?:(?P<think>{_either(THINKING)})|/(?P<unthink>{_either(THINKING)}))>",
        rf"<(?:(?P<tool>{_either(tags)})|/(?P<untool>{_either(tags)}))>",
        rf"`(?P<ticks>`{{0,{LONGEST_RUN - 1}}})(?: ?(?P<word>{_either(fences)})(?=[\s{{]))?",
        rf"~(?P<tildes>~{{2,{LONGEST_RUN - 1}}})",
    )
    beginning = (
        _beginnings(f"{bracket}{name}>" for name in THINKING + tags for bracket in ("<", "</")),
        rf"`{MORE_TICKS}",
        rf"~{MORE_TILDES}",
        # Only the character after the word shows whether it is a block.
        rf"``{MORE_TICKS} ?(?:{_beginnings(f'{word}.' for word in fences) or NOTHING})?",
    )
    return _marks("|".join(whole), "|".join(beginning))


@cache
def in_opening(fence: str) -> Marks:
    """Return the marks that end the opening line of ordinary code; a tick means that it is not an opening line."""
    return _marks(r"\n|`" if fence == "`" else r"\n", NOTHING)


@cache
def in_code(fence: str, length: int) -> Marks:
    """Return the marks of the line that closes ordinary code."""
    blank = r"[ \t\r]{0,16}"
    return _marks(
        rf"\n{blank}{fence}{{{length},{LONGEST_RUN}}}{blank}(?=\n)",
        rf"\n{blank}(?:{fence}{{1,{LONGEST_RUN}}}+{blank})?",
    )


@cache
def in_thinking(name: str) -> Marks:
    """Return the marks of the tag that ends this thinking."""
    return _marks(f"</{name}>", _beginnings([f"</{name}>"]))


class BlockMarks(Struct, frozen=True):
    """The marks in a block: outside and inside of JSON strings, and `plain` if strings are not recognised."""

    outside: Marks
    inside: Marks
    plain: Marks


@cache
def in_block(ticks: int) -> BlockMarks:
    """Return the marks in a block that was opened by this number of ticks; 0 means by a tag."""
    end = rf"`{{{ticks},{LONGEST_RUN}}}" if ticks else f"</{TAG}>"
    beginning = rf"`{MORE_TICKS}" if ticks else _beginnings([f"</{TAG}>"])
    return BlockMarks(
        outside=_marks(rf'(?P<quote>")|(?P<end>{end})', beginning),
        inside=_marks(rf'(?P<escape>\\.)|(?P<quote>")|(?P<end>{end})', rf"\\|{beginning}"),
        plain=_marks(rf"(?P<end>{end})", beginning),
    )
