"""The holidays of countries from the library `holidays`, which is imported on first use."""

import re
from collections.abc import Iterator
from datetime import date
from functools import lru_cache

from shared.dates.ranges import add_days
from shared.dates.words import normalise

ENGLISH = "en_US"
# Categories that are not holidays, such as school holidays and working days in exchange for days off.
EXCLUDED_CATEGORIES = {"school", "workday", "half_day"}
# In these countries, some religious holidays are in the category of school holidays.
SCHOOL_HOLIDAY_COUNTRIES = {"IL"}
# Outside of these years the library omits Hindu holidays and warns.
SUPPORTED_YEARS = {"IN": range(2001, 2036)}


@lru_cache(maxsize=256)
def list_days(country: str, year: int) -> dict[date, tuple[str, ...]]:
    """Return the English names of the holidays of a country (a two-letter code) in a year, by date."""
    import holidays

    national_days = holidays.country_holidays(country)
    if year not in SUPPORTED_YEARS.get(country, range(national_days.start_year, national_days.end_year + 1)):
        return {}
    english = next((language for language in national_days.supported_languages if language.startswith("en_")), None)
    language = ENGLISH if ENGLISH in national_days.supported_languages else english
    exclusions = set() if country in SCHOOL_HOLIDAY_COUNTRIES else EXCLUDED_CATEGORIES
    categories = [category for category in national_days.supported_categories if category not in exclusions]
    days = holidays.country_holidays(country, years=year, observed=False, language=language, categories=categories)
    return {day: tuple(name.partition(" (")[0] for name in names.split("; ")) for day, names in sorted(days.items())}


def first_days(country: str, name: str, year: int) -> Iterator[date]:
    """Yield the first day of each occurrence in the year of this holiday of a country."""
    days = {
        day
        for calendar_year in (year - 1, year)
        for day, names in list_days(country, calendar_year).items()
        if name in names
    }
    yield from (day for day in sorted(days) if day.year == year and add_days(day, -1) not in days)


@lru_cache(maxsize=1)
def countries() -> dict[str, str]:
    """Return the two-letter codes of all countries, by normalised name."""
    from holidays.registry import COUNTRIES

    letters_by_name = {re.sub(r"(?<=[a-z])(?=[A-Z])", " ", entry[0]).lower(): entry[1] for entry in COUNTRIES.values()}
    others = {"us": "US", "usa": "US", "america": "US", "uk": "GB", "britain": "GB", "england": "GB"}
    german = {"deutschland": "DE", "oesterreich": "AT", "schweiz": "CH", "frankreich": "FR", "italien": "IT"}
    return {normalise(name): letters for name, letters in (letters_by_name | others | german).items()}
