"""Date ranges, arithmetic with days, weeks and months, and the weekend where a person lives."""

import calendar
from datetime import date, timedelta
from functools import lru_cache

from msgspec import Struct

WEEK_STARTS = {"monday": 0, "saturday": 5, "sunday": 6}
# The first and the last day, from Monday, 0; they may be the same.
Weekend = tuple[int, int]
SATURDAY_AND_SUNDAY: Weekend = (5, 6)


class DateRange(Struct, frozen=True):
    """The days from `start` to `end`, both included; `note` is a remark, such as another interpretation.

    With `begins_at_sunset`, only the evening of `start` belongs to it.
    """

    start: date
    end: date
    note: str = ""
    is_weekend: bool = False
    begins_at_sunset: bool = False

    @property
    def days(self) -> int:
        """Return the number of days, without one of which only the evening counts."""
        return (self.end - self.start).days + (0 if self.begins_at_sunset else 1)

    @property
    def check_in(self) -> date:
        """Return the day of arrival of a stay: for a weekend, the day before."""
        return add_days(self.start, -1) if self.is_weekend and self.start > date.min else self.start

    @property
    def check_out(self) -> date:
        """Return the day of departure of a stay, at least one night after that of arrival."""
        return self.end if self.end > self.check_in or self.end == date.max else add_days(self.end, 1)

    def sentence(self) -> str:
        """Return the dates as a sentence."""
        if self.begins_at_sunset:
            count = "1 day" if self.days == 1 else f"{self.days} days"
            return f"from the evening of {_long(self.start)} to {_long(self.end)}, {count}."
        if self.start == self.end:
            return f"{_long(self.start)}."
        return f"{_long(self.start)} to {_long(self.end)}, {self.days} days with the first and the last."


def _long(day: date) -> str:
    return f"{day:%A}, {day.day} {day:%B} {day.year}"


def short_date(day: date) -> str:
    """Return the date as notes write it, such as 17 January 2027."""
    return f"{day.day} {day:%B} {day.year}"


def single_day(day: date, note: str = "") -> DateRange:
    """Return the range of a single day."""
    return DateRange(day, day, note)


def add_days(day: date, count: int) -> date:
    """Return the day `count` days later."""
    return day + timedelta(days=count)


def add_months(day: date, count: int) -> date:
    """Return the same day `count` months later, or the last day of that month when it is shorter."""
    years, month = divmod(day.year * 12 + day.month - 1 + count, 12)
    return date(years, month + 1, min(day.day, days_in(years, month + 1)))


def days_in(year: int, month: int) -> int:
    """Return the number of days of a month; raises `ValueError` outside of the years 1 to 9999."""
    if not 1 <= year <= 9999:
        raise ValueError("year is out of range")
    return calendar.monthrange(year, month)[1]


def month_of(year: int, month: int) -> DateRange:
    """Return a whole month."""
    return DateRange(date(year, month, 1), date(year, month, days_in(year, month)))


def year_of(year: int) -> DateRange:
    """Return a whole year."""
    return DateRange(date(year, 1, 1), date(year, 12, 31))


def week_of(day: date, week_start: str) -> DateRange:
    """Return the week that contains the day."""
    start = add_days(day, -((day.weekday() - WEEK_STARTS[week_start]) % 7))
    return DateRange(start, add_days(start, 6))


def weekend_from(day: date, weekend: Weekend) -> DateRange:
    """Return the weekend that contains the day, else the next one."""
    first, last = weekend
    end = weekday_from(day, last)
    start = add_days(end, -((last - first) % 7))
    return DateRange(start, end, is_weekend=True)


def weekday_from(day: date, weekday: int) -> date:
    """Return the first such weekday (Monday is 0) on or after the day."""
    return add_days(day, (weekday - day.weekday()) % 7)


def nth_weekday(days: DateRange, weekday: int, nth: int) -> date:
    """Return the n-th such weekday of the range, from the end when negative; raises `ValueError` when there is none."""
    if nth > 0:
        day = add_days(weekday_from(days.start, weekday), 7 * (nth - 1))
    else:
        day = add_days(days.end, -((days.end.weekday() - weekday) % 7) + 7 * (nth + 1))
    if not days.start <= day <= days.end:
        raise ValueError("there is no such day")
    return day


@lru_cache
def weekend_in(time_zone: str) -> Weekend:
    """Return the weekend where a time zone belongs: the zone tells the country, Unicode's CLDR its weekend.

    It is Saturday and Sunday where the zone belongs to no country, as UTC does.
    """
    # Imported here: a program that starts needs no weekend yet.
    from babel.core import Locale, UnknownLocaleError, get_global

    name = get_global("zone_aliases").get(time_zone, time_zone)
    country = get_global("zone_territories").get(name)
    if country is None:
        return SATURDAY_AND_SUNDAY
    try:
        locale = Locale.parse(f"und_{country}")
    except UnknownLocaleError:
        return SATURDAY_AND_SUNDAY
    return locale.weekend_start, locale.weekend_end
