"""Spans of days, and the arithmetic of weeks and months they are made with."""

import calendar
from dataclasses import dataclass
from datetime import date, timedelta

WEEK_STARTS = {"monday": 0, "saturday": 5, "sunday": 6}
SATURDAY = 5


@dataclass(frozen=True, slots=True)
class Span:
    """Days from `start` to `end`, both included; `note` says what else the words could have meant."""

    start: date
    end: date
    note: str = ""

    @property
    def days(self) -> int:
        """Return how many days these are."""
        return (self.end - self.start).days + 1

    def sentence(self) -> str:
        """Return the days as people write them."""
        if self.start == self.end:
            return f"{_long(self.start)}."
        return f"{_long(self.start)} to {_long(self.end)}, {self.days} days with the first and the last."


def _long(day: date) -> str:
    return f"{day:%A}, {day.day} {day:%B} {day.year}"


def short(day: date) -> str:
    """Return a day as it stands in a note."""
    return f"{day.day} {day:%B} {day.year}"


def one(day: date, note: str = "") -> Span:
    """Return the span of a single day."""
    return Span(day, day, note)


def add_days(day: date, count: int) -> date:
    """Return the day so many days later."""
    return day + timedelta(days=count)


def add_months(day: date, count: int) -> date:
    """Return the same day of the month so many months later; the month's last one where it is too short."""
    years, month = divmod(day.year * 12 + day.month - 1 + count, 12)
    return date(years, month + 1, min(day.day, days_in(years, month + 1)))


def days_in(year: int, month: int) -> int:
    """Return how many days a month has."""
    if not 1 <= year <= 9999:
        raise ValueError("year is out of range")
    return calendar.monthrange(year, month)[1]


def month_of(year: int, month: int) -> Span:
    """Return a whole month."""
    return Span(date(year, month, 1), date(year, month, days_in(year, month)))


def year_of(year: int) -> Span:
    """Return a whole year."""
    return Span(date(year, 1, 1), date(year, 12, 31))


def week_of(day: date, week_start: str) -> Span:
    """Return the week with this day in it."""
    start = add_days(day, -((day.weekday() - WEEK_STARTS[week_start]) % 7))
    return Span(start, add_days(start, 6))


def weekend_from(day: date, week_start: str) -> Span:
    """Return the weekend that the day is in, else the first one after it.

    Where the week starts on Saturday its end is Friday with the Thursday before; elsewhere Saturday and Sunday.
    """
    first = 3 if week_start == "saturday" else SATURDAY
    if day.weekday() == (first + 1) % 7:
        return Span(add_days(day, -1), day)
    start = weekday_from(day, first)
    return Span(start, add_days(start, 1))


def weekday_from(day: date, weekday: int) -> date:
    """Return the first such weekday on or after the day."""
    return add_days(day, (weekday - day.weekday()) % 7)


def nth_weekday(days: Span, weekday: int, nth: int) -> date:
    """Return the n-th such weekday among the days, counted from the end for a negative n; raises `ValueError`."""
    if nth > 0:
        found = add_days(weekday_from(days.start, weekday), 7 * (nth - 1))
    else:
        found = add_days(days.end, -((days.end.weekday() - weekday) % 7) + 7 * (nth + 1))
    if not days.start <= found <= days.end:
        raise ValueError("there is no such day")
    return found
