"""Holidays as the tables of the `holidays` library list them; it is imported when it is first asked."""

import re
from collections.abc import Iterator
from datetime import date
from functools import lru_cache

from modules.calendar.date_ranges import add_days
from modules.calendar.date_words import normalise

ENGLISH = "en_US"
# Whole weeks without school, and days on which work is made up for.
NO_HOLIDAYS = {"school", "workday", "half_day"}
# Here the feasts on which only schools are closed are listed so.
FEASTS_OF_SCHOOLS = {"IL"}
# Outside of these years the library leaves the feasts of the Hindu calendar out, and warns.
YEARS = {"IN": range(2001, 2036)}


@lru_cache(maxsize=256)
def list_days(country: str, year: int) -> dict[date, tuple[str, ...]]:
    """Return the holidays of a country (its two letters) in a year, by their English names."""
    import holidays

    known = holidays.country_holidays(country)
    if year not in YEARS.get(country, range(known.start_year, known.end_year + 1)):
        return {}
    english = next((each for each in known.supported_languages if each.startswith("en_")), None)
    language = ENGLISH if ENGLISH in known.supported_languages else english
    left_out = set() if country in FEASTS_OF_SCHOOLS else NO_HOLIDAYS
    categories = [each for each in known.supported_categories if each not in left_out]
    days = holidays.country_holidays(country, years=year, observed=False, language=language, categories=categories)
    return {day: tuple(_plain(name) for name in names.split("; ")) for day, names in sorted(days.items())}


def first_days(country: str, name: str, year: int) -> Iterator[date]:
    """Yield each first day in the year of a holiday that the country lists by this name."""
    listed = {day for each in (year - 1, year) for day, names in list_days(country, each).items() if name in names}
    yield from (day for day in sorted(listed) if day.year == year and add_days(day, -1) not in listed)


@lru_cache(maxsize=1)
def countries() -> dict[str, str]:
    """Return the two letters of every country, by its name in lower case."""
    from holidays.registry import COUNTRIES

    named = {re.sub(r"(?<=[a-z])(?=[A-Z])", " ", each[0]).lower(): each[1] for each in COUNTRIES.values()}
    others = {"us": "US", "usa": "US", "america": "US", "uk": "GB", "britain": "GB", "england": "GB"}
    german = {"deutschland": "DE", "oesterreich": "AT", "schweiz": "CH", "frankreich": "FR", "italien": "IT"}
    return {normalise(name): letters for name, letters in (named | others | german).items()}


def _plain(name: str) -> str:
    return name.partition(" (")[0]
