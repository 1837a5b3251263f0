"""Converts the results of tools to JSON of bounded size, for the model and the journal.

Of a very large result only a part is read, so that converting it does not cost more than for a small one.
"""

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from pydantic_core import to_jsonable_python

from shared.text import clean

# The key that marks a result as a request for approval. This release reads the journal's `outcome` instead, but the
# previous release reads this key, so tools may not set it.
ASKED = "confirmation_asked"

# At most this many characters of a result are converted to JSON, or four times the limit if that is more.
MOST_CHARS = 200_000
MOST_LEVELS = 64
# Characters counted for every value besides its text: commas, quotes and brackets.
WRAPPING = 4


def to_json(result: Any, limit: int) -> str:
    """Convert a result to JSON of at most `limit` characters.

    A longer result becomes an object with `cut`, its size in characters and its beginning.
    """
    taker = _Taker(max(MOST_CHARS, 4 * limit))
    plain = taker.take(result)
    if isinstance(plain, dict):
        # A tool could otherwise forge a request for approval.
        plain.pop(ASKED, None)
    text = json.dumps(plain, ensure_ascii=False)
    if len(text) <= limit and not taker.is_cut:
        return text
    size = {"more_than_chars" if taker.is_cut else "total_chars": len(text)}
    room = max(0, limit - 120)
    beginning = text[:room]
    # Escaping the cut text again may make it longer than the limit.
    while (length := len(json.dumps(beginning, ensure_ascii=False))) > room + 2:
        beginning = beginning[: len(beginning) * room // length]
    return json.dumps({"cut": True, **size, "beginning": beginning}, ensure_ascii=False)


class _Taker:
    # Copies JSON values as they are and converts others with pydantic, until the character limit is reached.
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
            # One byte more than fits, so that `_take_text` notices the cut.
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
