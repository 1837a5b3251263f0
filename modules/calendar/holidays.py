"""Finds a holiday by its names, tolerating misspellings, in any country that the name mentions."""

import re
from datetime import date
from difflib import get_close_matches
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from modules.calendar.listed import countries, first_days, list_days
from modules.calendar.table import HOLIDAYS, Holiday, listed_in
from shared.dates.ranges import DateRange, add_days, short_date
from shared.dates.words import normalise
from shared.errors import ToolError

MAX_NAME_CHARS = 80
FIRST_YEAR, LAST_YEAR = 1900, 2100
MIN_SIMILARITY, MIN_SUGGESTION_SIMILARITY = 0.82, 0.4
TRAILING_YEAR = re.compile(r"^(?P<name>.*?)\s*\b(?P<year>\d{4})$")
NATIONAL_DAY = ("national day", "national holiday", "nationalfeiertag", "nationaltag")
KINDS_OF_NATIONAL_DAY = ("national day", "independence day", "constitution day", "republic day", "unity day")
LEADING_WORD = re.compile(r"^(?:this|next|coming|upcoming|dieses|naechstes|kommendes)\s+")


class DatedHoliday(Struct, frozen=True):
    """A holiday with its dates."""

    name: str
    date_range: DateRange


def get_holiday(name: str, year: int | None, today: date) -> DatedHoliday:
    """Return the holiday's dates in that year, or else the next ones; raises `ToolError` with similar names."""
    holiday = find_holiday(name, year, today)
    if holiday is not None:
        return holiday
    near = get_close_matches(_key(name), _by_key(), n=5, cutoff=MIN_SUGGESTION_SIMILARITY)
    nearest = list(dict.fromkeys(_by_key()[key].name for key in near))
    raise ToolError(
        f"I know no holiday {name.strip()[:MAX_NAME_CHARS]!r}. Name a country too, as in 'National Day in Norway'.",
        nearest=nearest or [holiday.name for holiday in HOLIDAYS],
    )


def find_holiday(name: str, year: int | None, today: date) -> DatedHoliday | None:
    """Return the holiday's dates, None when no holiday has this name or a similar one."""
    key = LEADING_WORD.sub("", _key(name))
    if year is None and (match := TRAILING_YEAR.match(key)):
        key, year = match["name"], int(match["year"])
    holiday = _by_key().get(key) or _of_country(key, year or today.year)
    note = ""
    if holiday is None:
        near = get_close_matches(key, _by_key(), n=1, cutoff=MIN_SIMILARITY)
        if not near:
            return None
        holiday = _by_key()[near[0]]
        note = f"Taken as {holiday.name}. "
    return DatedHoliday(holiday.name, _days(replace(holiday, note=note + holiday.note), year, today))


def _days(holiday: Holiday, year: int | None, today: date) -> DateRange:
    if year is not None and not FIRST_YEAR <= year <= LAST_YEAR:
        raise ToolError(f"I know holidays from {FIRST_YEAR} to {LAST_YEAR}.")
    years = range(today.year - 1, today.year + 3) if year is None else (year,)
    ranges: list[DateRange] = []
    for first in (day for calendar_year in years for day in holiday.first(calendar_year)):
        last = add_days(first, holiday.days - 1)
        if holiday.name == "Ramadan":
            # Its length varies from year to year: it ends on the day before Eid al-Fitr.
            feasts = [
                day for of_year in (first.year, first.year + 1) for day in first_days("MV", "Eid al-Fitr", of_year)
            ]
            last = min((add_days(day, -1) for day in feasts if day > first), default=last)
        if year is not None or last >= today:
            eve = add_days(first, -1)
            start = eve if holiday.begins_at_sunset else first
            note = holiday.note.format(eve=short_date(eve))
            ranges.append(DateRange(start, last, note, begins_at_sunset=holiday.begins_at_sunset))
    if not ranges:
        raise ToolError(f"I have no date of {holiday.name} in {year or today.year}.")
    if year is not None and len(ranges) > 1:
        first = add_days(ranges[1].start, 1) if ranges[1].begins_at_sunset else ranges[1].start
        again = f"There is another one that year, from {short_date(first)}."
        return replace(ranges[0], note=f"{ranges[0].note} {again}".strip())
    return ranges[0]


def _of_country(key: str, year: int) -> Holiday | None:
    """Return a holiday from the list of a country that is named before or after it: "national day in norway"."""
    pieces = key.split()
    pairs = [(" ".join(pieces[:at]), " ".join(pieces[at:])) for at in range(1, len(pieces))]
    country_last = [(before.removesuffix(" in").removesuffix(" of"), after) for before, after in pairs]
    for words, country in country_last + [(after, before) for before, after in pairs]:
        letters = countries().get(country)
        if letters is None:
            continue
        names = {_key(name): name for day_names in list_days(letters, year).values() for name in day_names}
        near = [words] if words in names else get_close_matches(words, names, n=1, cutoff=MIN_SIMILARITY)
        if words in NATIONAL_DAY and not near:
            near = [name_key for kind in KINDS_OF_NATIONAL_DAY for name_key in names if kind in name_key][:1]
        if near:
            name = names[near[0]]
            title = f"{name} ({country.title() if len(country) > 3 else letters})"
            return Holiday(title, (), listed_in(letters, name), begins_at_sunset=_begins_at_sunset(name))
    return None


def list_of_country(country: str, year: int) -> tuple[str, list[dict[str, str]]]:
    """Return the two-letter code of a country and its holidays in a year; raises `ToolError` with similar names."""
    text = country.strip()
    key = _key(text)
    letters = text.upper() if text.upper() in countries().values() else countries().get(key)
    if letters is None:
        near = get_close_matches(key, countries(), n=5, cutoff=MIN_SUGGESTION_SIMILARITY)
        raise ToolError(f"I know no country {text[:MAX_NAME_CHARS]!r}.", nearest=near)
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise ToolError(f"I know holidays from {FIRST_YEAR} to {LAST_YEAR}.")
    entries = []
    for day, names in list_days(letters, year).items():
        for name in names:
            evening = {"begins_at_sunset_of": add_days(day, -1).isoformat()} if _begins_at_sunset(name) else {}
            entries.append({"date": day.isoformat(), "name": name, **evening})
    if not entries:
        raise ToolError(f"I have no holidays of {letters} in {year}.")
    return letters, entries


def _begins_at_sunset(name: str) -> bool:
    holiday = _by_key().get(_key(name))
    return holiday is not None and holiday.begins_at_sunset


@lru_cache(maxsize=1)
def _by_key() -> dict[str, Holiday]:
    return {_key(name): holiday for holiday in reversed(HOLIDAYS) for name in (holiday.name, *holiday.others)}


def _key(name: str) -> str:
    words = normalise(name[:MAX_NAME_CHARS].replace("'", "").replace("\N{RIGHT SINGLE QUOTATION MARK}", ""))
    return " ".join(re.sub(r"[-./]", " ", words).split())
