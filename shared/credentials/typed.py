"""Credentials that somebody has typed into a message, which is no place for them."""

import re
from typing import Any

# With or without the word `set`, which is easily forgotten.
TYPED = re.compile(
    r"(/credential)\s+(?:set\s+)?(?!(?:set|list|forget)\b)(\S+)\s+(?!\[removed\]\s*\Z)\S.*", re.IGNORECASE | re.DOTALL
)
REMOVED = "[removed]"
MARK = re.compile(rf"/credential set \S+ {re.escape(REMOVED)}", re.IGNORECASE)


def without_typed(text: str) -> str:
    """Return a text without the credential in it: what follows `/credential set NAME`."""
    return TYPED.sub(rf"\1 set \2 {REMOVED}", text) if "/credential" in text.lower() else text


def had_typed(text: str) -> bool:
    """Return whether a credential was removed from this text."""
    return REMOVED in text and MARK.search(text) is not None


def without_typed_in(value: Any) -> Any:
    """Return a JSON value whose texts are as `without_typed` leaves them."""
    if isinstance(value, str):
        return without_typed(value)
    if isinstance(value, dict):
        return {name: without_typed_in(part) for name, part in value.items()}
    return [without_typed_in(part) for part in value] if isinstance(value, (list, tuple)) else value
