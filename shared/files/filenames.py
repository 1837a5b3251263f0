"""Names of files: clean ones for people, plain ones for storage."""

import re
import unicodedata
from secrets import token_hex

from shared.text import clean

MAX_NAME = 200
MAX_EXTENSION = 20
MAX_KEY_NAME = 80
# They shape letters and emoji; every other format character can make a name look like another one.
JOINERS = "\u200c\u200d"
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean_filename(name: str) -> str:
    """Return the last part of a path as a name that is safe to show and to save, of at most 200 characters."""
    name = unicodedata.normalize("NFC", clean(name[-4000:]))
    name = re.split(r"[/\\]", name.rstrip("/\\ "))[-1]
    name = "".join(each for each in name if each in JOINERS or unicodedata.category(each) not in UNSEEN)
    name = re.sub(r'[<>:"|?*]', "_", name)
    name = re.sub(r"\s+", " ", name).strip(" .")
    return _shorten(name, MAX_NAME) or "file"


def new_key(user_part: str, filename: str) -> str:
    """Return a storage key that nobody can guess, `user_part/random/name`, in characters that every store takes."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", clean_filename(filename)).strip("._-")
    return f"{user_part}/{token_hex(16)}/{_shorten(plain, MAX_KEY_NAME) or 'file'}"


def _shorten(name: str, limit: int) -> str:
    if len(name) <= limit:
        return name
    stem, dot, extension = name.rpartition(".")
    if not stem or not extension or len(extension) > MAX_EXTENSION:
        return name[:limit].rstrip(" .")
    return stem[: limit - len(extension) - 1].rstrip(" .") + dot + extension
