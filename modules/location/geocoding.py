"""Finds the coordinates of an address, at a service that speaks Nominatim's protocol."""

import json
from urllib.parse import urlencode

from msgspec import Struct

from modules.location.settings import LocationSettings
from shared.errors import ToolError, Unavailable
from shared.text import clean, cut
from shared.tools import ToolContext

SECONDS, MAX_BYTES, MOST = 15.0, 500_000, 3


class Address(Struct, frozen=True):
    """A point on the map, in degrees, with the name that the service has for it."""

    label: str
    latitude: float
    longitude: float


async def find_address(context: ToolContext, address: str) -> Address:
    """Return the point of an address; raises `ToolError` if there is none, `Unavailable`."""
    base = context.settings(LocationSettings).geocoder_url.rstrip("/")
    query = urlencode({"q": address, "format": "jsonv2", "limit": MOST})
    # The operator has chosen the service: it may be in the same network.
    response = await context.http.get(
        f"{base}/search?{query}", trusted=True, timeout_seconds=SECONDS, max_bytes=MAX_BYTES
    )
    if response.status != 200:
        raise Unavailable(f"The geocoder answers with status {response.status}.")
    try:
        places = json.loads(response.text)
        points = [
            Address(clean(str(place["display_name"])), float(place["lat"]), float(place["lon"])) for place in places
        ]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Unavailable("The geocoder has sent something else than addresses.") from None
    if not points or not (abs(points[0].latitude) <= 90 and abs(points[0].longitude) <= 180):
        raise ToolError(f"No address {cut(address, 80)!r} was found.")
    return points[0]
