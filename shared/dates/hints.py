"""Resolves date expressions such as "next weekend" to dates in the user's time zone.

The current time is an argument, so that the same call always gives the same dates.
"""

import re
from datetime import date, datetime

from msgspec import Struct
from msgspec.structs import replace

from shared.dates.ranges import DateRange, Weekend, weekend_in
from shared.dates.rules import RULES
from shared.dates.words import MAX_HINT_CHARS, TIME_OF_DAY, normalise
from shared.dates.written import read_written, read_written_range
from shared.dates.zones import today_in
from shared.errors import ToolError

EXAMPLES = (
    "2027-01-17",
    "tomorrow",
    "next Friday",
    "this weekend",
    "in 3 weeks",
    "end of month",
    "first Monday of March",
    "January 17-19",
    "3 nights from January 17",
)
# Removed, because "from 17 to 19 January" means the same as "17 to 19 January".
FROM = re.compile(r"^(?:from|von|vom|between|zwischen|ab)\s+")
SEPARATORS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\s+(?:to|till|til|until|through|thru|and|und|bis(?: zum)?|-)\s+",
        r"(?<=\d{4}-\d\d-\d\d)[/-](?=\d{4})",
        r"\s?-\s?",
    )
)
MAX_DEPTH = 4


class _Reader(Struct, frozen=True):
    """The context in which a date is read, with the depth of its nesting in other dates."""

    today: date
    week_start: str
    weekend: Weekend
    depth: int = 0

    def read(self, text: str) -> DateRange | None:
        """Return the dates that the normalised text means, None when it is not understood."""
        if self.depth > MAX_DEPTH:
            return None
        deeper = replace(self, depth=self.depth + 1)
        for pattern, rule in RULES:
            if (match := pattern.fullmatch(text)) and (date_range := rule(deeper, match)):
                return date_range
        if date_range := read_written(text, self.today):
            return date_range
        plain = TIME_OF_DAY.sub("", text)
        if plain != text and (date_range := deeper.read(plain)):
            return date_range
        return deeper._read_range(text)

    def _read_range(self, text: str) -> DateRange | None:
        for separator in SEPARATORS:
            first, mark, last = separator.sub("\0", FROM.sub("", text), count=1).partition("\0")
            if not mark or not first or not last:
                continue
            if date_range := read_written_range(first, last, self.today):
                return date_range
            start = self.read(first)
            if start is None:
                continue
            # On a Saturday, "Friday to Sunday" ends on the Sunday after that Friday, not on the next day.
            ends = (reader.read(last) for reader in (self, replace(self, today=start.start)))
            end = next((end for end in ends if end is not None and end.end >= start.start), None)
            if end is not None:
                return DateRange(start.start, end.end, start.note or end.note)
        return None


def resolve(hint: str, now: datetime, time_zone: str = "UTC", week_start: str = "monday") -> DateRange:
    """Return the dates that a hint means for a user; raises `ToolError` with examples when it is not understood.

    The weekend is that of the country in which the time zone is, whatever day the user's week begins with.
    """
    text = normalise(hint[: MAX_HINT_CHARS + 1])
    if not text or len(hint) > MAX_HINT_CHARS:
        raise ToolError(f"Give a date or a hint of up to {MAX_HINT_CHARS} characters.", examples=EXAMPLES)
    try:
        date_range = _Reader(today_in(now, time_zone), week_start, weekend_in(time_zone)).read(text)
    except (ValueError, OverflowError):
        raise ToolError(f"There is no such day: {hint.strip()!r}.", examples=EXAMPLES) from None
    if date_range is None:
        raise ToolError(f"I don't understand {hint.strip()!r} as a date.", examples=EXAMPLES)
    return date_range
