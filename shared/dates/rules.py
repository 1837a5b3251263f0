"""The rules for relative dates such as "next Friday" or "end of month": a pattern and a function each."""

import re
from collections.abc import Callable
from datetime import date
from typing import Protocol

from shared.dates.ranges import (
    DateRange,
    Weekend,
    add_days,
    add_months,
    month_of,
    nth_weekday,
    short_date,
    single_day,
    week_of,
    weekday_from,
    weekend_from,
    year_of,
)
from shared.dates.words import (
    COMING,
    DAYS_AWAY,
    MONTHS,
    NIGHTS,
    NUMBERS,
    ORDINALS,
    PARTS,
    STEPS,
    UNITS,
    WEEKDAYS,
    one_of,
)
from shared.dates.written import read_written
from shared.errors import ToolError

COUNT = rf"(?:a )?(?P<count>\d{{1,4}}|{one_of(NUMBERS)})(?: of)?"
UNIT = rf"(?P<unit>{one_of(UNITS)})"
STEP = rf"(?:(?P<step>{one_of(STEPS)}) )?"
WEEKDAY = rf"(?P<weekday>{one_of(WEEKDAYS)})\.?"
ORDINAL = rf"(?P<ordinal>{one_of(ORDINALS)})"
AFTER_NEXT = r"(?P<twice> after next)?"
WEEKEND = r"(?:weekend|wochenende)"
OF = r"(?:of|in|im|von|vom)"


class Reader(Protocol):
    """The context in which a date is read; rules use it to read a date inside of another one."""

    @property
    def today(self) -> date:
        """Return the user's current date."""
        ...

    @property
    def week_start(self) -> str:
        """Return the first day of the user's week: monday, saturday or sunday."""
        ...

    @property
    def weekend(self) -> Weekend:
        """Return the first and the last day of the weekend where the user lives."""
        ...

    def read(self, text: str) -> DateRange | None:
        """Return the dates that the normalised text means, None when it is not understood."""
        ...


Rule = Callable[[Reader, re.Match[str]], DateRange | None]
# Tried in the order in which they stand below, so more specific patterns come first.
RULES: list[tuple[re.Pattern[str], Rule]] = []


def rule(*patterns: str) -> Callable[[Rule], Rule]:
    """Let a function read the texts of these patterns, after those of the functions above it."""

    def add(reading: Rule) -> Rule:
        RULES.extend((re.compile(pattern), reading) for pattern in patterns)
        return reading

    return add


def _step(match: re.Match[str]) -> int:
    if match["twice"]:
        return 2
    return STEPS[match["step"]] if match["step"] else 0


def _count(word: str) -> int:
    return NUMBERS[word] if word in NUMBERS else int(word)


def _moved(day: date, match: re.Match[str], sign: int) -> date:
    days, months = UNITS[match["unit"]]
    count = sign * _count(match["count"])
    return add_months(day, months * count) if months else add_days(day, days * count)


@rule(one_of(DAYS_AWAY))
def _away(reader: Reader, match: re.Match[str]) -> DateRange:
    return single_day(add_days(reader.today, DAYS_AWAY[match[0]]))


@rule(rf"(?P<back>vor )?(?:in )?{COUNT} {UNIT}(?:'? time| from now)?(?P<ago> ago)?")
def _in_units(reader: Reader, match: re.Match[str]) -> DateRange:
    return single_day(_moved(reader.today, match, -1 if match["ago"] or match["back"] else 1))


@rule(
    rf"{COUNT} {UNIT} (?P<way>from|after|before|nach|vor|ab|starting) (?P<rest>.+)", rf"(?P<rest>.+) in {COUNT} {UNIT}"
)
def _from_day(reader: Reader, match: re.Match[str]) -> DateRange | None:
    date_range = reader.read(match["rest"])
    if date_range is None:
        return None
    way = match.groupdict().get("way", "in")
    if way in {"ab", "starting"} or (way == "from" and match["unit"] in NIGHTS):
        return _stay(date_range.start, match)
    return single_day(_moved(date_range.start, match, -1 if way in {"before", "vor"} else 1), date_range.note)


@rule(rf"(?P<rest>.+) (?:for|fuer) {COUNT} {UNIT}")
def _for_units(reader: Reader, match: re.Match[str]) -> DateRange | None:
    date_range = reader.read(match["rest"])
    return _stay(date_range.start, match) if date_range else None


def _stay(start: date, match: re.Match[str]) -> DateRange:
    after = _moved(start, match, 1)
    if match["unit"] in NIGHTS:
        return DateRange(start, after, f"{_count(match['count'])} nights: the last day is that of departure.")
    return DateRange(start, max(start, add_days(after, -1)))


@rule(rf"{STEP}{WEEKEND}{AFTER_NEXT}")
def _weekend(reader: Reader, match: re.Match[str]) -> DateRange:
    coming = weekend_from(reader.today, reader.weekend)
    step = _step(match)
    start, end = (add_days(day, 7 * step) for day in (coming.start, coming.end))
    note = ""
    if step == 1 and coming.start > reader.today:
        note = f"Some mean the coming weekend by this, from {short_date(coming.start)}; ask when it matters."
    return DateRange(start, end, note, is_weekend=True)


@rule(rf"(?:{ORDINAL} )?{WEEKEND} (?:after |nach )?(?:{OF} )?(?P<rest>.+)")
def _weekend_of(reader: Reader, match: re.Match[str]) -> DateRange | None:
    date_range = reader.read(match["rest"])
    if date_range is None:
        return None
    if match["ordinal"] is None:
        return weekend_from(date_range.start, reader.weekend)
    start = nth_weekday(date_range, reader.weekend[0], ORDINALS[match["ordinal"]])
    return weekend_from(start, reader.weekend)


@rule(rf"{STEP}(?:week|woche){AFTER_NEXT}")
def _week(reader: Reader, match: re.Match[str]) -> DateRange:
    return week_of(add_days(reader.today, 7 * _step(match)), reader.week_start)


@rule(
    r"(?:calendar week|kalenderwoche|kw|week|woche) (?P<number>\d{1,2})(?: (?:of )?(?P<year>\d{4}))?",
    r"(?P<year>\d{4})-w(?P<number>\d\d)",
)
def _numbered_week(reader: Reader, match: re.Match[str]) -> DateRange:
    number = int(match["number"])
    start = date.fromisocalendar(int(match["year"] or reader.today.isocalendar().year), number, 1)
    if not match["year"] and add_days(start, 6) < reader.today:
        start = date.fromisocalendar(start.isocalendar().year + 1, number, 1)
    return DateRange(start, add_days(start, 6))


@rule(rf"(?:week|woche) {OF} (?P<rest>.+)")
def _week_of(reader: Reader, match: re.Match[str]) -> DateRange | None:
    date_range = reader.read(match["rest"])
    return week_of(date_range.start, reader.week_start) if date_range else None


@rule(rf"{STEP}(?P<unit>month|monats?|year|jahr|jahres){AFTER_NEXT}")
def _month_or_year(reader: Reader, match: re.Match[str]) -> DateRange:
    step = _step(match)
    if match["unit"] in {"month", "monat", "monats"}:
        day = add_months(reader.today, step)
        return month_of(day.year, day.month)
    return year_of(reader.today.year + step)


@rule(rf"(?P<step>{one_of(STEPS)}) (?P<name>{one_of(MONTHS)})")
def _named_month(reader: Reader, match: re.Match[str]) -> DateRange:
    month, step = MONTHS[match["name"]], STEPS[match["step"]]
    year = reader.today.year
    if step > 0 and month <= reader.today.month:
        year += 1
    if step < 0 and month >= reader.today.month:
        year -= 1
    return month_of(year, month)


@rule(r"(?:q|quarter |quartal )(?P<number>[1-4])(?: (?P<year>\d{4}))?")
def _quarter(reader: Reader, match: re.Match[str]) -> DateRange:
    last = 3 * int(match["number"])
    year = int(match["year"] or reader.today.year + (last < reader.today.month))
    return DateRange(date(year, last - 2, 1), month_of(year, last).end)


@rule(rf"(?P<part>{one_of(PARTS)})[ -](?:{OF} )?(?P<rest>.+)")
def _part(reader: Reader, match: re.Match[str]) -> DateRange | None:
    date_range = reader.read(match["rest"])
    if date_range is None or date_range.days < 7:
        return None
    part = PARTS[match["part"]]
    if part in {"first", "last"}:
        day = date_range.start if part == "first" else date_range.end
        return single_day(day, f"Taken as the {part} day.")
    third = date_range.days // 3
    first = {"early": 0, "mid": third, "late": 2 * third}[part]
    last = {"early": third, "mid": 2 * third, "late": date_range.days}[part] - 1
    return DateRange(add_days(date_range.start, first), add_days(date_range.start, last))


@rule(rf"{ORDINAL} {WEEKDAY} (?:{OF} )?(?P<rest>.+)")
def _nth_weekday(reader: Reader, match: re.Match[str]) -> DateRange | None:
    days = reader.read(match["rest"])
    if days is None or days.days < 7:
        return None
    day = nth_weekday(days, WEEKDAYS[match["weekday"]], ORDINALS[match["ordinal"]])
    if day < reader.today and match["rest"] in MONTHS:
        later = month_of(day.year + 1, day.month)
        day = nth_weekday(later, WEEKDAYS[match["weekday"]], ORDINALS[match["ordinal"]])
    return single_day(day)


@rule(rf"{STEP}{WEEKDAY}{AFTER_NEXT}")
def _weekday(reader: Reader, match: re.Match[str]) -> DateRange:
    weekday = WEEKDAYS[match["weekday"]]
    step = _step(match)
    if step == -1:
        return single_day(add_days(weekday_from(reader.today, weekday), -7))
    first = weekday_from(reader.today, weekday)
    if step == 0:
        return single_day(add_days(first, 7) if first == reader.today and match["step"] in COMING else first)
    monday = week_of(reader.today, reader.week_start).start
    day = weekday_from(add_days(monday, 7 * step), weekday)
    is_near = step == 1 and reader.today < first < day
    return single_day(day, f"Some mean {short_date(first)} by this; ask when it matters." if is_near else "")


@rule(rf"{WEEKDAY} (?:{OF} )?(?P<rest>(?:{one_of(STEPS)}) (?:week|woche)|week after next)")
def _weekday_of_week(reader: Reader, match: re.Match[str]) -> DateRange | None:
    week = reader.read(match["rest"])
    return single_day(weekday_from(week.start, WEEKDAYS[match["weekday"]])) if week and week.days == 7 else None


@rule(rf"{WEEKDAY} (?P<rest>.+)")
def _weekday_and_date(reader: Reader, match: re.Match[str]) -> DateRange | None:
    date_range = read_written(match["rest"], reader.today)
    if date_range is None or date_range.days > 1:
        return None
    if date_range.start.weekday() != WEEKDAYS[match["weekday"]]:
        raise ToolError(
            f"{short_date(date_range.start)} is a {date_range.start:%A}; give the date alone, or the right weekday."
        )
    return date_range
