"""What tools return, as JSON for the model and the journal: bounded, whatever it is.

Of a result that is far larger than the limit only a part is ever looked at, so that it costs no more than a small one.
"""

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from pydantic_core import to_jsonable_python

from shared.text import clean

# The key of a result that stands for a question to the person. Control flow reads the journal's `outcome`; the release
# before reads this key, so no tool may write it.
ASKED = "confirmation_asked"

# So many characters of a result are turned into JSON, of which the limit is shown.
MOST_CHARS = 200_000
MOST_LEVELS = 64
# What a value costs beside its characters: its commas, quotes and brackets.
WRAPPING = 4


def to_json(result: Any, limit: int) -> str:
    """Return the result as JSON of at most `limit` characters; what is longer says so, and begins as it does."""
    taker = _Taker(max(MOST_CHARS, 4 * limit))
    plain = taker.take(result)
    if isinstance(plain, dict):
        # A yes to a question that a tool made up would be a yes to its call.
        plain.pop(ASKED, None)
    text = json.dumps(plain, ensure_ascii=False)
    if len(text) <= limit and not taker.is_cut:
        return text
    size = {"more_than_chars" if taker.is_cut else "total_chars": len(text)}
    room = max(0, limit - 120)
    beginning = text[:room]
    # Quotes are escaped once more: what is cut to fit may grow beyond the limit again.
    while (length := len(json.dumps(beginning, ensure_ascii=False))) > room + 2:
        beginning = beginning[: len(beginning) * room // length]
    return json.dumps({"cut": True, **size, "beginning": beginning}, ensure_ascii=False)


class _Taker:
    # Takes what JSON knows as it is, the rest as pydantic sees it, until it has taken enough.
    def __init__(self, chars: int) -> None:
        self._left = chars
        self._level = 0
        self.is_cut = False

    def take(self, value: Any) -> Any:
        self._left -= WRAPPING
        if value is None or isinstance(value, (bool, int)):
            return value
        if type(value) is str:
            return self._take_text(value)
        if isinstance(value, (bytes, bytearray)):
            # One byte more than there is room for, so that it is seen to be cut.
            return self._take_text(bytes(value[: max(0, self._left) + 1]).decode("utf-8", "replace"))
        if type(value) is float:
            return value if isfinite(value) else str(value)
        if isinstance(value, (Mapping, list, tuple, set, frozenset, Iterator)):
            return self._take_inner(value)
        return self.take(to_jsonable_python(value, fallback=str, inf_nan_mode="strings"))

    def _take_inner(self, value: Any) -> Any:
        if self._level >= MOST_LEVELS:
            self.is_cut = True
            return "…"
        self._level += 1
        taken = self._take_pairs(value) if isinstance(value, Mapping) else self._take_each(value)
        self._level -= 1
        return taken

    def _take_pairs(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        taken: dict[str, Any] = {}
        for key, inner in value.items():
            if self._is_full():
                break
            name = key if type(key) is str else str(to_jsonable_python(key, fallback=str))
            taken[self._take_text(name)] = self.take(inner)
        return taken

    def _take_each(self, value: Any) -> list[Any]:
        taken: list[Any] = []
        for inner in value:
            if self._is_full():
                break
            taken.append(self.take(inner))
        return taken

    def _take_text(self, text: str) -> str:
        room = max(0, self._left)
        self._left -= len(text)
        self.is_cut = self.is_cut or len(text) > room
        return clean(text[:room])

    def _is_full(self) -> bool:
        self.is_cut = self.is_cut or self._left <= 0
        return self._left <= 0
