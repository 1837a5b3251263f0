"""The days of the weekend where a person lives: their time zone tells the country, Unicode's CLDR its weekend."""

from functools import lru_cache

from babel.core import Locale, UnknownLocaleError, get_global

# The first and the last day, from Monday, 0; they may be the same.
Weekend = tuple[int, int]
SATURDAY_AND_SUNDAY: Weekend = (5, 6)


@lru_cache
def weekend_in(time_zone: str) -> Weekend:
    """Return the weekend where a time zone belongs; Saturday and Sunday where it belongs to no country, as UTC does."""
    name = get_global("zone_aliases").get(time_zone, time_zone)
    country = get_global("zone_territories").get(name)
    if country is None:
        return SATURDAY_AND_SUNDAY
    try:
        locale = Locale.parse(f"und_{country}")
    except UnknownLocaleError:
        return SATURDAY_AND_SUNDAY
    return locale.weekend_start, locale.weekend_end
