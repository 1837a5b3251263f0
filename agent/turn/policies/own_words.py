"""Whether the person who asks has said what decides the effect of a call: its recipient, amount, target or text.

A value counts as said when its words stand in a row in one of the person's messages, whatever their case; a number when
it is written there, a date or a time also in the usual other forms, and the end that follows from such a beginning and
from a duration ("for one hour"). Values that the schema gives when nothing is said
(defaults), booleans and empty ones decide nothing.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

# Addresses, file names and numbers are one word each: a part of an address is another address.
WORD = re.compile(r"[^\W_](?:\S*[^\W_])?")
POSSESSIVE = re.compile("['\u2019]s$")
# Marks that change what a word names: a path, a pattern, an option, a sign, a call to all. `.` and `/` end sentences
# and addresses, too, so they count only before a word.
MARKS_BEFORE, MARKS_AFTER = "./\\~*@-+&|<>=^", "*~&|<>="
# A comma or an apostrophe stands between groups of three digits; a comma before one or two is a decimal point.
DIGITS = r"(?:\d{1,3}(?:[,']\d{3})+(?:\.\d+)?|\d+(?:\.\d+|,\d{1,2})?)"
# With a currency or a unit.
NUMBER = re.compile(rf"[^\W\d]{{0,3}}({DIGITS})[^\W\d]{{0,3}}")
PLAIN_NUMBER = re.compile(DIGITS)
MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::\d\d)?)?")
# Shorter words and smaller numbers stand in almost every message by chance, so they decide nothing alone.
LEAST_CHARS, LEAST_NUMBER = 3, 10


class OwnWords:
    """The words and numbers of some texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._sources = texts = list(texts)
        # Each text for itself: words that only stand in a row across two messages were not said.
        self._texts = [f" {' '.join(split_words(text))} " for text in texts]
        self._marked = [f" {' '.join(_split_marked(text))} " for text in texts]
        words = [word for text in texts for word in split_words(text)]
        self._numbers = {to_number(number[1]) for word in words if (number := NUMBER.fullmatch(word))}

    def say(self, value: object) -> bool:
        """Return whether this text or number was said."""
        if isinstance(value, int | float):
            return float(value) in self._numbers
        text = str(value).strip()
        is_said, moment = self._have(text), MOMENT.fullmatch(text)
        if PLAIN_NUMBER.fullmatch(text):
            return is_said or to_number(text) in self._numbers
        if is_said or moment is None:
            return is_said
        day, time = moment.groups()
        if self._say_moment(day, time):
            return True
        if time is None:
            return False
        # Imported here, as by modules: with all patterns of dates, which most answers need none of.
        from shared.dates.times import list_durations

        # It may be the end of something whose beginning and duration were said.
        durations = {duration for text in self._sources for duration in list_durations(text)}
        try:
            end = datetime.fromisoformat(f"{day} {time}")
            beginnings = [end - duration for duration in durations]
        except (ValueError, OverflowError):
            return False
        return any(self._say_moment(f"{beginning:%Y-%m-%d}", f"{beginning:%H:%M}") for beginning in beginnings)

    def _have(self, text: str) -> bool:
        if is_disguised(text) and not any(text in source for source in self._sources):
            return False
        words, marked = split_words(text), _split_marked(text)
        row = " ".join(words)
        if marked != words:
            return bool(row) and any(f" {' '.join(marked)} " in said for said in self._marked)
        return bool(row) and any(f" {row} " in text for text in self._texts)

    def _say_moment(self, day: str, time: str | None) -> bool:
        try:
            moment = datetime.fromisoformat(f"{day} {time or '00:00'}")
        except ValueError:
            return False
        months = (f"{moment:%B}", f"{moment:%b}")
        days = (f"{moment.day}", f"{moment.day}st", f"{moment.day}nd", f"{moment.day}rd", f"{moment.day}th")
        dates = [
            day,
            *(f"{month} {number}" for month in months for number in days),
            *(f"{number} {month}" for month in months for number in days),
            *(f"{number} of {month}" for month in months for number in days),
        ]
        if not any(map(self._have, dates)):
            return False
        hour = moment.hour % 12 or 12
        half = "am" if moment.hour < 12 else "pm"
        times = [
            f"{moment:%H:%M}",
            f"{moment.hour}:{moment:%M}",
            f"{hour}:{moment:%M} {half}",
            f"{hour}:{moment:%M}{half}",
        ]
        if moment.minute == 0:
            times += [f"{hour} {half}", f"{hour}{half}"]
        return time is None or any(map(self._have, times))


def list_deciding(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str | int | float]:
    """Yield the values of a call's arguments that decide its effect; `schema` is the JSON schema of the arguments."""
    rules = schema.get("properties", {})
    for name, value in arguments.items():
        rule = rules.get(name)
        if not isinstance(rule, Mapping):
            # The caller chose the name as well.
            yield name
            rule = {}
        if "default" not in rule or value != rule["default"]:
            yield from _list_values(value, rule)


def _list_values(value: Any, rule: Mapping[str, Any]) -> Iterator[str | int | float]:
    if isinstance(value, Mapping):
        yield from list_deciding(value, rule)
    elif isinstance(value, list):
        items = rule.get("items")
        for item in value:
            yield from _list_values(item, items if isinstance(items, Mapping) else {})
    elif value is not None and value != "" and not isinstance(value, bool):
        yield value


def is_telling(value: str | float) -> bool:
    """Return whether a value is unlikely to stand in a message by chance."""
    return value >= LEAST_NUMBER if isinstance(value, int | float) else len(value.strip()) >= LEAST_CHARS


def split_words(text: str) -> list[str]:
    """Return the words of a text in its order, in one form whatever their case, width and punctuation around them."""
    # Not `casefold`, for which ß is ss: a host with the one is another than that with the other.
    return [POSSESSIVE.sub("", word) for word in WORD.findall(unicodedata.normalize("NFKC", text).lower())]


def is_disguised(text: str) -> bool:
    """Return whether a text has wide or invisible letters: what it names may be another thing than without them."""
    if text.isascii():
        return False
    as_it_stands = [POSSESSIVE.sub("", word) for word in WORD.findall(unicodedata.normalize("NFC", text).lower())]
    return as_it_stands != split_words(text) or any(unicodedata.category(letter) == "Cf" for letter in text)


def _split_marked(text: str) -> list[str]:
    """Return the words of a text with the marks that change what they name."""
    marked = []
    for token in unicodedata.normalize("NFKC", text).lower().split():
        word = WORD.search(token)
        if word is None:
            marks = "".join(mark for mark in token if mark in MARKS_BEFORE)
            # A dash between words or before a list's entry is punctuation.
            marked += [marks] if marks.strip("-.") else []
            continue
        before = "".join(mark for mark in token[: word.start()] if mark in MARKS_BEFORE)
        after = "".join(mark for mark in token[word.end() :] if mark in MARKS_AFTER)
        marked.append(before + POSSESSIVE.sub("", word[0]) + after)
    return marked


def to_number(text: str) -> float:
    """Return the value of a number as people write it, such as 1,200.50 or 1,50."""
    if re.fullmatch(r"\d+,\d{1,2}", text):
        return float(text.replace(",", "."))
    return float(text.replace(",", "").replace("'", ""))
