"""A tool for the weather: now, and the forecast for the next days."""

from typing import Annotated, Any, Literal

from pydantic import Field

from modules.weather.client import MAX_DAYS, Forecast, find_places, load_forecast
from shared.errors import ToolError
from shared.messages import Permission
from shared.text import clean
from shared.tools import ToolContext, tool

MAX_PLACE_CHARS = 100


# `acts=False`: the name of the place goes only to the service that the operator has chosen.
@tool(
    requires=Permission.GUEST,
    read_only=True,
    repeatable=True,
    acts=False,
    words=("Looking up the weather in {place}", "Looked up the weather in {place}"),
)
async def get_weather(
    context: ToolContext,
    place: str,
    days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 3,
    units: Literal["metric", "imperial"] = "metric",
) -> dict[str, Any]:
    """Tell the weather now and for the next days; name the country or region if a place is not unique.

    Example: {"place": "Paris, Texas", "days": 2} -> "place": "Paris, Texas, United States"
    """
    name = " ".join(clean(place).split())
    if not 2 <= len(name) <= MAX_PLACE_CHARS:
        raise ToolError(f"place needs 2 to {MAX_PLACE_CHARS} characters, such as 'Lisbon' or 'Paris, Texas'.")
    location, *others = await find_places(context, name)
    forecast: Forecast = await load_forecast(context, location, units)
    result = {
        "place": location.label,
        "time_zone": forecast.time_zone,
        "units": forecast.units,
        "now": forecast.now,
        "days": forecast.days[:days],
    }
    if others:
        result["other_places"] = [other.label for other in others]
    return result
