"""Sanitises and shortens text that enters or leaves the program."""

from math import isfinite
from typing import Any

MAX_DEPTH = 32


def clean(text: str) -> str:
    """Return the text without NUL bytes (Postgres refuses them) and with lone surrogates replaced by U+FFFD."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean_json(value: Any) -> Any:
    """Return a JSON value with all its strings cleaned; NaN and infinity, which JSON does not have, become strings."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {clean(str(key)): clean_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean_json(inner) for inner in value]
    return value


def cut(text: str, limit: int) -> str:
    """Return the text, cut to at most `limit` characters including a note with the original length."""
    if len(text) <= limit:
        return text
    note = f"… [cut: {len(text):,} characters in all]"
    return text[: max(0, limit - len(note))] + note
