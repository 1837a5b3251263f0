"""File names for display, and storage keys made from them."""

import re
import unicodedata
from secrets import token_hex

from shared.text import clean, find_cut

# File systems bound the bytes of a name.
MAX_NAME_CHARS, MAX_NAME_BYTES = 200, 255
MAX_EXTENSION_CHARS = 20
MAX_KEY_NAME_CHARS = 80
# Zero-width joiners are part of letters and emoji; other format characters can make a name look like another one.
JOINERS = "\u200c\u200d"
INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean_filename(name: str) -> str:
    """Return the last part of a path as a name of at most 200 characters and 255 bytes, safe to display and to save."""
    name = unicodedata.normalize("NFC", clean(name[-4000:]))
    name = re.split(r"[/\\]", name.rstrip("/\\ "))[-1]
    name = "".join(char for char in name if char in JOINERS or unicodedata.category(char) not in INVISIBLE_CATEGORIES)
    name = re.sub(r'[<>:"|?*]', "_", name)
    name = re.sub(r"\s+", " ", name).strip(" .")
    return _shorten(name, MAX_NAME_CHARS) or "file"


def new_key(user_part: str, filename: str) -> str:
    """Return an unguessable storage key `user_part/random/name`, of characters that every store accepts."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", clean_filename(filename)).strip("._-")
    return f"{user_part}/{token_hex(16)}/{_shorten(plain, MAX_KEY_NAME_CHARS) or 'file'}"


def _shorten(name: str, limit: int) -> str:
    limit = min(limit, len(name.encode()[:MAX_NAME_BYTES].decode(errors="ignore")))
    if len(name) <= limit:
        return name
    stem, dot, extension = name.rpartition(".")
    if not stem or not extension or len(extension) > MAX_EXTENSION_CHARS or not extension.isascii():
        return name[: find_cut(name, limit)].rstrip(" .")
    return stem[: find_cut(stem, limit - len(extension) - 1)].rstrip(" .") + dot + extension
