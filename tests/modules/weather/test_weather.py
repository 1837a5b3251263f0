"""The weather of a place, over HTTP against a stand-in that speaks Open-Meteo's protocol."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest

from modules import weather
from modules.weather.client import DAILY, NOW
from shared.errors import ToolError, Unavailable
from shared.http.client import GuardedClient
from shared.messages import Permission
from shared.settings import Settings
from shared.tools import ToolContext
from tests.support.loopback import Answer, Request, Server, reply, serving
from tests.support.tool_calls import call, context_without_database, variables

PARIS = {"name": "Paris", "admin1": "Ile-de-France", "country": "France", "latitude": 48.85, "longitude": 2.35}
TEXAS = {"name": "Paris", "admin1": "Texas", "country": "United States", "latitude": 33.66, "longitude": -95.55}
DATES = [f"2026-12-0{day}" for day in range(1, 8)]
FORECAST = {
    "timezone": "Europe/Paris",
    "current_units": {"temperature_2m": "°C", "wind_speed_10m": "km/h"},
    "current": {"time": "2026-12-01T10:00", **dict.fromkeys(NOW, 7.5), "weather_code": 61},
    "daily": {"time": DATES, **{name: [1, 2, 3, 4, 5, 6, 7] for name in DAILY}, "weather_code": [0] * 7},
}


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[ToolContext]:
    http = GuardedClient(Settings())
    yield context_without_database(tmp_path, "weather", http)
    await http.aclose()


def answering(places: Any, forecast: Any = FORECAST) -> Answer:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        payload = {"results": places} if "/v1/search?" in request.path else forecast
        await reply(json.dumps(payload).encode())(request, writer)

    return answer


def queries(server: Server) -> list[dict[str, str]]:
    return [
        {name: value for name, (value,) in parse_qs(urlsplit(request.path).query).items()}
        for request in server.requests
    ]


def at(server: Server, **environment: str) -> Any:
    """Return the variables of a service at an address of its own: an answer stays in the cache by its address."""
    url = f"{server.origin}/{uuid4()}"
    return variables(WEATHER_URL=url, WEATHER_GEOCODING_URL=url, **environment)


async def test_the_weather_of_a_place_is_told_for_now_and_the_next_days(context: ToolContext) -> None:
    async with serving(answering([PARIS, TEXAS])) as server:
        with at(server):
            report = await call(weather.get_weather, context, place=" Paris ", days=2)

    assert report["place"] == "Paris, Ile-de-France, France"
    assert report["other_places"] == ["Paris, Texas, United States"]
    assert report["time_zone"] == "Europe/Paris"
    assert report["units"] == {"temperature": "°C", "wind": "km/h"}
    assert (report["now"]["weather"], report["now"]["temperature"]) == ("light rain", 7.5)
    assert [(day["date"], day["weather"], day["max"]) for day in report["days"]] == [
        ("2026-12-01", "clear", 1),
        ("2026-12-02", "clear", 2),
    ]


async def test_a_region_or_country_chooses_among_places_of_the_same_name(context: ToolContext) -> None:
    async with serving(answering([PARIS, TEXAS])) as server:
        with at(server):
            report = await call(weather.get_weather, context, place="Paris, texas", units="imperial")
            with pytest.raises(ToolError, match="No place named 'Paris' was found there") as error:
                await call(weather.get_weather, context, place="Paris, Peru")
        assert queries(server)[0]["name"] == "Paris"
        assert queries(server)[1]["temperature_unit"] == "fahrenheit"

    assert report["place"] == "Paris, Texas, United States"
    assert "other_places" not in report
    assert error.value.fields["known_places"][0] == "Paris, Ile-de-France, France"


async def test_the_service_is_asked_once_for_the_same_place(context: ToolContext) -> None:
    async with serving(answering([PARIS])) as server:
        with at(server):
            first = await call(weather.get_weather, context, place="Paris")
            second = await call(weather.get_weather, context, place="Paris")
        assert len(server.requests) == 2

    assert first == second


async def test_a_key_is_sent_with_each_request(context: ToolContext) -> None:
    async with serving(answering([PARIS])) as server:
        with at(server, WEATHER_API_KEY="weather-key-1"):
            await call(weather.get_weather, context, place="Paris")
        assert [query["apikey"] for query in queries(server)] == ["weather-key-1"] * 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reply(b"", 503), Unavailable),
        (reply(b"[]"), Unavailable),
        (reply(b"<html>"), Unavailable),
        (answering([PARIS], {"current": {}}), Unavailable),
        (answering([]), ToolError),
        (answering("none"), ToolError),
        (answering([{"name": "Paris", "latitude": "north"}]), ToolError),
    ],
)
async def test_a_service_that_fails_gives_an_error(
    context: ToolContext, answer: Answer, error: type[Exception]
) -> None:
    async with serving(answer) as server:
        with at(server), pytest.raises(error):
            await call(weather.get_weather, context, place="Paris")


@pytest.mark.parametrize("arguments", [{"place": ""}, {"place": "x" * 101}, {"place": "Paris", "days": 8}])
async def test_bad_arguments_ask_nobody(context: ToolContext, arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError):
        await call(weather.get_weather, context, **arguments)


def test_guests_may_ask_and_nothing_is_done() -> None:
    assert weather.get_weather.requires == Permission.GUEST
    assert not weather.get_weather.acts_on({})
