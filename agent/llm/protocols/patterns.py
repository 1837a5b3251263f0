"""What to look for in a model's text, place by place: whole marks, and beginnings that a later piece may complete.

Every mark has a longest length, so that little is held back of a stream and one pass over the text is enough.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

TAG = "tool"
CALL, DELEGATE = FENCES = ("tool_call", "delegate")
THINKING = ("think", "thinking", "reasoning")
# No mark is longer; a run of more ticks than this is read as several.
LONGEST_MARK = 80
LONGEST_RUN = 32
# As many as there are, looked at once.
MORE_TICKS = f"`{{0,{LONGEST_RUN - 1}}}+"
MORE_TILDES = f"~{{0,{LONGEST_RUN - 1}}}+"
# Matches nowhere.
NOTHING = "(?!)"
FLAGS = re.IGNORECASE | re.ASCII


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one place; `beginning` matches at the end of a text that a mark may continue."""

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
    """Return the marks of ordinary text: thinking, code, and the blocks of these kinds."""
    tags = (TAG,) if TAG in kinds else ()
    fences = tuple(word for word in FENCES if word in kinds)
    # Each begins with a plain character: so a search is several times as fast.
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
        # One more character has to follow the word before the block is certain.
        rf"``{MORE_TICKS} ?(?:{_beginnings(f'{word}.' for word in fences) or NOTHING})?",
    )
    return _marks("|".join(whole), "|".join(beginning))


@cache
def in_opening(fence: str) -> Marks:
    """Return what ends the line that opens ordinary code: a tick on it means that it was no such line."""
    return _marks(r"\n|`" if fence == "`" else r"\n", NOTHING)


@cache
def in_code(fence: str, length: int) -> Marks:
    """Return the line that closes ordinary code."""
    blank = r"[ \t\r]{0,16}"
    return _marks(
        rf"\n{blank}{fence}{{{length},{LONGEST_RUN}}}{blank}(?=\n)",
        rf"\n{blank}(?:{fence}{{1,{LONGEST_RUN}}}+{blank})?",
    )


@cache
def in_thinking(name: str) -> Marks:
    """Return the tag that ends this thinking."""
    return _marks(f"</{name}>", _beginnings([f"</{name}>"]))


@dataclass(frozen=True, slots=True)
class BlockMarks:
    """The marks within a block: outside of JSON strings, inside of them, and where strings are not told apart."""

    outside: Marks
    inside: Marks
    plain: Marks


@cache
def in_block(ticks: int) -> BlockMarks:
    """Return the marks of a block that was opened by so many ticks; without ticks by a tag."""
    end = rf"`{{{ticks},{LONGEST_RUN}}}" if ticks else f"</{TAG}>"
    beginning = rf"`{MORE_TICKS}" if ticks else _beginnings([f"</{TAG}>"])
    return BlockMarks(
        outside=_marks(rf'(?P<quote>")|(?P<end>{end})', beginning),
        inside=_marks(rf'(?P<escape>\\.)|(?P<quote>")|(?P<end>{end})', rf"\\|{beginning}"),
        plain=_marks(rf"(?P<end>{end})", beginning),
    )
