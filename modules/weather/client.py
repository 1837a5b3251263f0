"""Asks a service that speaks Open-Meteo's protocol; its answers are kept for a while."""

import math
from collections.abc import Mapping, MutableMapping
from typing import Any

from cachetools import TTLCache
from msgspec import Struct

from modules.weather.settings import WeatherSettings
from shared.errors import ToolError, Unavailable
from shared.text import clean, cut
from shared.tools import ToolContext

MAX_DAYS = 7
MAX_PLACES = 4
SECONDS, MAX_BYTES = 10.0, 256 * 1024
IMPERIAL = {"temperature_unit": "fahrenheit", "wind_speed_unit": "mph", "precipitation_unit": "inch"}
NOW = {
    "temperature_2m": "temperature",
    "apparent_temperature": "feels_like",
    "relative_humidity_2m": "humidity",
    "precipitation": "precipitation",
    "wind_speed_10m": "wind",
    "weather_code": "weather",
}
DAILY = {
    "weather_code": "weather",
    "temperature_2m_min": "min",
    "temperature_2m_max": "max",
    "precipitation_sum": "precipitation",
    "precipitation_probability_max": "chance_of_precipitation",
    "wind_speed_10m_max": "wind",
    "sunrise": "sunrise",
    "sunset": "sunset",
}
# Codes of the World Meteorological Organization, as far as the service uses them.
WEATHER = {
    0: "clear",
    1: "mainly clear",
    2: "partly cloudy",
    3: "overcast",
    45: "fog",
    48: "freezing fog",
    51: "light drizzle",
    53: "drizzle",
    55: "heavy drizzle",
    56: "light freezing drizzle",
    57: "freezing drizzle",
    61: "light rain",
    63: "rain",
    65: "heavy rain",
    66: "light freezing rain",
    67: "freezing rain",
    71: "light snow",
    73: "snow",
    75: "heavy snow",
    77: "snow grains",
    80: "light showers",
    81: "showers",
    82: "violent showers",
    85: "light snow showers",
    86: "heavy snow showers",
    95: "thunderstorm",
    96: "thunderstorm with hail",
    99: "thunderstorm with heavy hail",
}


class FoundPlace(Struct, frozen=True):
    """A place on the map; `label` has its region and country."""

    label: str
    latitude: float
    longitude: float


class Forecast(Struct, frozen=True):
    """The weather of a place, with the units of its numbers."""

    time_zone: str
    units: dict[str, str]
    now: dict[str, Any]
    days: list[dict[str, Any]]


# By the address of the request: a place does not move, the service computes a new forecast every 15 minutes.
_PLACES: MutableMapping[str, Mapping[str, Any]] = TTLCache(1000, 24 * 3600)
_FORECASTS: MutableMapping[str, Mapping[str, Any]] = TTLCache(500, 600)


async def find_places(context: ToolContext, name: str) -> list[FoundPlace]:
    """Return the places with this name, the likeliest first; raises `ToolError` when there is none.

    What follows a comma is the region or country that the place has to be in.
    """
    settings = context.settings(WeatherSettings)
    name, _, region = (part.strip() for part in name.partition(","))
    query = {"name": name, "count": "10", "format": "json"}
    answer = await _load(context, _PLACES, f"{settings.geocoding_url.rstrip('/')}/v1/search", query=query)
    results = answer.get("results")
    places = []
    for result in results if isinstance(results, list) else ():
        numbers = [result.get(key) for key in ("latitude", "longitude")] if isinstance(result, Mapping) else []
        position = [float(number) for number in numbers if isinstance(number, int | float) and math.isfinite(number)]
        if len(position) == 2:
            latitude, longitude = position
            parts = [clean(str(result[key])) for key in ("name", "admin1", "country") if result.get(key)]
            places.append(FoundPlace(cut(", ".join(dict.fromkeys(parts)), 150), latitude, longitude))
    matches = [place for place in places if region.lower() in place.label.lower()]
    if not matches:
        others = [place.label for place in places[:MAX_PLACES]]
        raise ToolError(f"No place named {cut(name, 60)!r} was found{' there' if region else ''}.", known_places=others)
    return matches[:MAX_PLACES]


async def load_forecast(context: ToolContext, place: FoundPlace, units: str) -> Forecast:
    """Return the weather of a place; raises `Unavailable`."""
    settings = context.settings(WeatherSettings)
    query = {
        "latitude": f"{place.latitude:.4f}",
        "longitude": f"{place.longitude:.4f}",
        "current": ",".join(NOW),
        "daily": ",".join(DAILY),
        "timezone": "auto",
        "forecast_days": str(MAX_DAYS),
        **(IMPERIAL if units == "imperial" else {}),
    }
    answer = await _load(context, _FORECASTS, f"{settings.url.rstrip('/')}/v1/forecast", query=query)
    now, daily = _mapping(answer, "current"), _mapping(answer, "daily")
    dates = daily.get("time")
    if not isinstance(dates, list) or not now:
        raise Unavailable("The weather service has sent no forecast.")
    unit_names = _mapping(answer, "current_units")
    columns = {label: (name, daily.get(name)) for name, label in DAILY.items()}
    days = [
        {"date": date}
        | {
            label: _value(name, column[index])
            for label, (name, column) in columns.items()
            if isinstance(column, list) and index < len(column)
        }
        for index, date in enumerate(dates[:MAX_DAYS])
    ]
    return Forecast(
        time_zone=str(answer.get("timezone", "")),
        units={
            label: str(unit_names[name]) for name, label in NOW.items() if name in unit_names and name != "weather_code"
        },
        now={"time": now.get("time"), **{label: _value(name, now.get(name)) for name, label in NOW.items()}},
        days=[{label: value for label, value in day.items() if value is not None} for day in days],
    )


async def _load(
    context: ToolContext, cache: MutableMapping[str, Mapping[str, Any]], url: str, *, query: Mapping[str, str]
) -> Mapping[str, Any]:
    key = f"{url} {sorted(query.items())}"
    if key not in cache:
        secret = context.settings(WeatherSettings).api_key
        params = {**query, **({"apikey": secret.get_secret_value()} if secret else {})}
        response = await context.http.get(
            url, params=params, trusted=True, timeout_seconds=SECONDS, max_bytes=MAX_BYTES
        )
        answer = response.json() if response.status == 200 else None
        if not isinstance(answer, Mapping):
            raise Unavailable(f"The weather service answers with status {response.status}.")
        cache[key] = answer
    return cache[key]


def _mapping(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, Mapping) else {}


def _value(name: str, value: Any) -> Any:
    return WEATHER.get(value, "unknown") if name == "weather_code" and isinstance(value, int) else value
