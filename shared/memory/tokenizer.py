"""Splits text into words for the index of memories; scripts without spaces, such as Chinese, into character bigrams.

Stemming is left to Postgres (its `english_stem` dictionary), which needs no library here.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256

MAX_WORD = 64
# Of one memory.
MAX_CONTENT_CHARS = 2000
# Combining accents of Latin, Greek and Cyrillic. The marks of Thai or Hindi are part of the word and are kept.
ACCENTS = re.compile("[\u0300-\u036f]")
# Scripts written without spaces: Han, kana, Thai, Lao, Burmese, Khmer.
UNSPACED = (
    "\u3005\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3"
)
# Vowel signs and joiners, which `\w` does not match although words of Hindi or Bengali contain them.
MARKS = "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962-\u0963\u0981-\u0983\u09bc-\u09cd\u0a3c-\u0a4d\u0abc-\u0acd"
MARKS += "\u0bbe-\u0bcd\u0c3e-\u0c4d\u0cbc-\u0ccd\u0d3e-\u0d4d\u064b-\u065f\u05b0-\u05c7"
ASCII_WORD = re.compile("[a-z0-9]+")
PIECE = re.compile(f"(?P<run>[{UNSPACED}]+)|(?P<word>(?:[^\\W_{UNSPACED}]|[{MARKS}])+)")
STOP_WORDS = frozenset(
    """
    a about all am an and any are as at be been but by can could d did do does doesn don for from had has have he her
    him his how i if in into is isn it its just ll m me my of on or our re s she should so some such t than that the
    their them then there these they this to us ve was wasn we were what when where which who whom whose why will with
    would you your
    """.split()  # noqa: SIM905  # as a list it would be a hundred lines
)


def split_words(text: str, *, with_single: bool = True) -> list[str]:
    """Return the words of a text in order, without stop words.

    A run of characters of a script without spaces is split into bigrams; `with_single` adds the single characters, so
    that a query of one character matches.
    """
    words: list[str] = []
    if text.isascii():
        # Most begin with a letter, and are no numbers.
        words += [word for word in ASCII_WORD.findall(text.lower()) if word not in STOP_WORDS]
        return [word[:MAX_WORD] if word[0] > "9" else _plain(word) for word in words]
    folded = unicodedata.normalize("NFKC", text).casefold()
    folded = unicodedata.normalize("NFC", ACCENTS.sub("", unicodedata.normalize("NFD", folded)))
    for piece in PIECE.finditer(folded):
        run, word = piece["run"], piece["word"]
        if run is not None:
            words.extend([run[at : at + 2] for at in range(len(run) - 1)] or [run])
            words.extend(run if with_single and len(run) > 1 else ())
        elif word not in STOP_WORDS:
            words.append(_plain(word))
    return words


def _plain(word: str) -> str:
    # Days are written as 05 and as 5.
    return (word.lstrip("0") or "0" if word.isdigit() else word)[:MAX_WORD]


def question_words(text: str, limit: int = 64) -> list[str]:
    """Return the first `limit` distinct words of a query."""
    # Bounds the work: text after the first 4,000 characters does not matter for a query.
    return list(dict.fromkeys(split_words(text[:4000], with_single=False)))[:limit]


def dated(text: str, said_at: datetime) -> str:
    """Return the text preceded by its date, so that a query for a month or year matches."""
    return f"{said_at:%d %B %Y}: {text}"


def count_words(text: str) -> Counter[str]:
    """Return how often each word occurs in a text to be indexed."""
    return Counter(split_words(text))


def content_key(text: str) -> str:
    """Return a hash that is equal for texts that differ only in case, white space and final punctuation."""
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return sha256((folded.rstrip(".!。 ") or folded).encode()).hexdigest()


def split_text(content: str, limit: int) -> Iterable[str]:
    """Yield the text in parts of at most `limit` characters, broken at white space where there is any."""
    while len(content) > limit:
        end = max(content.rfind(space, limit // 2, limit) for space in " \n") + 1 or limit
        if content[:end].strip():
            yield content[:end].strip()
        content = content[end:]
    if content.strip():
        yield content.strip()
