"""Reads written dates: 2027-01-17, 17.1., January 17th, 17.-19. Januar; without a year, the next such date."""

import re
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from shared.dates.ranges import DateRange, month_of, short_date, single_day, year_of
from shared.dates.words import MONTHS, one_of
from shared.errors import ToolError

DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?"
NAMED = rf"(?P<name>{one_of(MONTHS)})\.?"
YEAR = r"(?P<year>\d{4})"
WRITTEN = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{YEAR}-(?P<month>\d{{1,2}})-(?P<day>\d{{1,2}})",
        rf"{YEAR}/(?P<month>\d{{1,2}})/(?P<day>\d{{1,2}})",
        r"(?P<day>\d{1,2})\. ?(?P<month>\d{1,2})\.? ?(?P<year>\d{4}|\d{2})?",
        r"(?P<one>\d{1,2})/(?P<two>\d{1,2})(?:/(?P<year>\d{4}|\d{2}))?",
        r"(?P<one>\d{1,2})-(?P<two>\d{1,2})-(?P<year>\d{4}|\d{2})",
        rf"{DAY} ?(?:of )?{NAMED}(?: {YEAR})?",
        rf"{NAMED} {DAY}(?: {YEAR})?",
        rf"{YEAR}-(?P<month>\d{{2}})",
        rf"{NAMED}(?: (?:of )?{YEAR})?",
        rf"{DAY}(?: {YEAR})?",
        YEAR,
    )
)
# There are up to eight years between two 29ths of February.
YEARS_AHEAD = 9


class _Parts(Struct, frozen=True):
    """The parts of a written date; None for missing ones."""

    day: int | None
    month: int | None
    year: int | None

    def to_date(self) -> date:
        return date(self.year or 0, self.month or 0, self.day or 0)

    @property
    def month_and_day(self) -> tuple[int, int]:
        return self.month or 0, self.day or 0


def read_written(text: str, today: date) -> DateRange | None:
    """Return the day, month or year that is written, None for other text.

    Raises `ToolError` for an ambiguous date, `ValueError` for one that does not exist.
    """
    parts = _parts(text)
    match parts:
        case None:
            return None
        case _Parts(day=None, month=None, year=int() as year):
            return year_of(year)
        case _Parts(day=None, month=int() as month, year=year):
            return month_of(year or today.year + (month < today.month), month)
        case _Parts(month=None, year=None):
            months = (divmod(today.year * 12 + today.month - 1 + ahead, 12) for ahead in range(12))
            days = (_find(of_year, (month + 1, parts.day or 0)) for of_year, month in months)
            coming = next((day for day in days if day is not None and day >= today), None)
            if coming is None:
                raise ValueError("no month has such a day")
            return single_day(coming)
        case _Parts(month=None):
            return None
        case _Parts(year=None):
            return single_day(next_occurrence(parts.month_and_day, today))
    return single_day(parts.to_date())


def read_written_range(first_text: str, last_text: str, today: date) -> DateRange | None:
    """Return the days between two written dates, where one may lack a month or year; None for other text."""
    first, last = _parts(first_text), _parts(last_text)
    if first is None or last is None or first.day is None or last.day is None:
        return None
    first, last = (
        replace(first, month=first.month or last.month),
        replace(last, month=last.month or first.month),
    )
    if first.month is None:
        return None
    crosses_year = (last.month or 0) < first.month
    if first.year is None and last.year is None:
        for year in range(today.year - 1, today.year + YEARS_AHEAD):
            first_day = _find(year, first.month_and_day)
            last_day = _find(year + crosses_year, last.month_and_day)
            if first_day is not None and last_day is not None and last_day >= today:
                return _in_order(first_day, last_day)
        raise ValueError("no year has such days")
    start = replace(first, year=first.year or (last.year or 0) - crosses_year).to_date()
    end = replace(last, year=last.year or start.year + crosses_year).to_date()
    return _in_order(start, end)


def next_occurrence(month_and_day: tuple[int, int], today: date) -> date:
    """Return the next date with this month and day, today included; raises `ValueError` when there is none."""
    for year in range(today.year, today.year + YEARS_AHEAD):
        day = _find(year, month_and_day)
        if day is not None and day >= today:
            return day
    raise ValueError("no year has such a day")


def _in_order(start: date, end: date) -> DateRange:
    if end < start:
        raise ToolError(f"{short_date(end)} is before {short_date(start)}.")
    return DateRange(start, end)


def _find(year: int, month_and_day: tuple[int, int]) -> date | None:
    try:
        return date(year, *month_and_day)
    except ValueError:
        return None


def _parts(text: str) -> _Parts | None:
    match = next(filter(None, (pattern.fullmatch(text) for pattern in WRITTEN)), None)
    if match is None:
        return None
    groups = match.groupdict()
    year = int(groups["year"]) if groups.get("year") else None
    if year is not None and year < 100:
        year += 2000
    if "one" in groups:
        one, two = int(match["one"]), int(match["two"])
        if max(one, two) > 12 or one == two:
            return _Parts(max(one, two), min(one, two), year)
        raise ToolError(
            f"{one}/{two} can mean {one} {_month(two)} or {_month(one)} {two}: ask, or write the month's name.",
            examples=(f"{one} {_month(two)}", f"{two} {_month(one)}"),
        )
    month = MONTHS[match["name"]] if groups.get("name") else int(groups.get("month") or 0) or None
    if groups.get("month") and month is None:
        raise ValueError("there is no month 0")
    return _Parts(int(match["day"]) if groups.get("day") else None, month, year)


def _month(number: int) -> str:
    return f"{date(2000, number, 1):%B}"
