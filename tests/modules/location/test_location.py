"""Named places, a phone that reports by OwnTracks, and reminders on enter and leave."""

import json
from itertools import pairwise
from math import cos, radians
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pydantic import SecretStr

from modules.location.geofence import distance, is_inside
from shared.db.database import Address
from shared.settings import Settings
from tests.adapters.web.conftest import Site, open_site
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.loopback import reply, serving
from tests.support.office import calls
from tests.support.parley import Parley, open_parley
from tests.support.tool_calls import variables

HOME = (52.5200, 13.4050)
# Degrees of latitude in a metre.
METRE = 1 / 111_195
USER = "UPDATE users SET permission_level = 'user'"
LEFT = """
SELECT (SELECT count(*) FROM location_places) + (SELECT count(*) FROM location_trackers)
     + (SELECT count(*) FROM location_reminders)
"""
FOUND = [{"display_name": "Alexanderplatz, Berlin", "lat": str(HOME[0]), "lon": str(HOME[1])}]

pytestmark = pytest.mark.settings(default_guest_token_budget=1_000_000, api_token=SecretStr("test-token"), port=0)


async def use(parley: Parley, tool: str, user: str = "ann", **arguments: Any) -> Any:
    """Let the model use a tool for a person in direct messages, and return the result."""
    parley.model.play([calls((f"location__{tool}", arguments)), Answer("Done.")])
    place = {"server": arguments.pop("server")} if "server" in arguments else {}
    reply_ = await parley.ask("do it", user=user, adapter="fake", **place)
    return reply_.tool_calls_made[0].result


async def report(phone: httpx.AsyncClient, metres: float, seconds: float, **fields: Any) -> int:
    """Report a position so far north of home at this time, and return the status."""
    position = {
        "_type": "location",
        "lat": HOME[0] + metres * METRE,
        "lon": HOME[1],
        "acc": 10,
        "tst": seconds,
        **fields,
    }
    return (await phone.post("/modules/location/positions", content=json.dumps(position))).status_code


async def pair(parley: Parley, site: Site) -> tuple[str, str]:
    """Open the pairing link of Ann's phone, and return its user and password."""
    link = urlsplit((await use(parley, "pair_phone"))["link"])
    response = await site.client.get(f"{link.path}?{link.query}")
    opened_again = await site.client.get(f"{link.path}?{link.query}")
    assert (response.status_code, opened_again.status_code) == (200, 410)
    user, password = (line.partition(": ")[2] for line in response.text.splitlines()[2:4])
    async with httpx.AsyncClient(base_url=site.url, auth=(user, "wrong")) as stranger:
        assert await report(stranger, 0, 1000) == 401
    return user, password


async def walk(parley: Parley, phone: httpx.AsyncClient) -> None:
    """Come home from far away, waver at the edge, and leave."""
    assert await report(phone, 5000, 1000) == 200
    assert await report(phone, 100, 2000) == 200
    assert await parley.platform.wait_for(1) == ["Reminder: Feed the bikes."]
    # At the edge, inexact, and late positions change nothing.
    for metres, seconds, more in ((230, 3000, {}), (9000, 3100, {"acc": 5000}), (9000, 100, {})):
        assert await report(phone, metres, seconds, **more) == 200
    assert await report(phone, 400, 4000) == 200
    assert await parley.platform.wait_for(2) == ["Reminder: Feed the bikes.", "Reminder: Lock the door."]
    assert await report(phone, 0, 5000) == 200


async def send_nonsense(phone: httpx.AsyncClient) -> None:
    """Send what is no position."""
    for wrong in (b"{", b"[]", b'{"_type": "location", "lat": "NaN", "lon": 1, "tst": 1}'):
        answer = await phone.post("/modules/location/positions", content=wrong)
        assert answer.status_code in {200, 400}
    assert (await phone.post("/modules/location/positions", content=b'{"_type": "lwt"}')).text == "[]"


async def test_a_paired_phone_fires_reminders_on_enter_and_leave(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with (
        serving(reply(json.dumps(FOUND).encode())) as geocoder,
        open_parley(settings, address, model) as parley,
        open_site(parley) as site,
    ):
        for user in ("ann", "bob"):
            await parley.ask("hello", user=user, adapter="fake")
        await parley.sql(USER)
        with variables(LOCATION_GEOCODER_URL=geocoder.origin):
            saved = await use(parley, "save_place", name="Home", address="Alexanderplatz", radius_metres=200)
        assert saved == {"name": "home", "at": "Alexanderplatz, Berlin", "radius_metres": 200}
        assert (await use(parley, "remind_at_place", "bob", place="home", text="x"))["error"]
        await use(parley, "remind_at_place", place="Home", text="Feed the bikes.")
        await use(parley, "remind_at_place", place="home", text="Lock the door.", on="leave", repeats=True)
        await parley.sql("UPDATE location_reminders SET author = 'stranger' WHERE repeats")

        credential = await pair(parley, site)
        parley.platform.posts.clear()
        async with httpx.AsyncClient(base_url=site.url, auth=credential) as phone:
            await walk(parley, phone)
            await send_nonsense(phone)
        assert await parley.value("SELECT author FROM scheduled_jobs WHERE content = 'Lock the door.'") == "stranger"
        await parley.sql("UPDATE location_reminders SET author = 'person'")
        # What was said is not shown any more, and so taints nothing.
        await parley.sql("UPDATE conversations SET window_turn_id = (SELECT max(id) + 1 FROM turns)")

        position = await use(parley, "get_position")
        assert position["metres_to_places"] == {"home": 0}
        assert (await use(parley, "get_position", "bob"))["error"]
        listing = await use(parley, "list_places")
        assert [reminder["text"] for reminder in listing["reminders"]] == ["Lock the door."]
        assert listing["places"] == [{"name": "home", "radius_metres": 200, "is_there": True}]
        reminder_id = listing["reminders"][0]["reminder_id"]
        assert (await use(parley, "cancel_place_reminder", "bob", reminder_id=reminder_id))["error"]
        assert await use(parley, "cancel_place_reminder", reminder_id=reminder_id) == {"cancelled": reminder_id}
        assert await parley.value("SELECT count(*) FROM scheduled_jobs WHERE module = 'location'") == 2
        await parley.sql("DELETE FROM users USING set_config('parley.delete_history', 'yes', true) WHERE id = 1")
        assert await parley.value(LEFT) == 0


points = st.tuples(st.floats(-90, 90), st.floats(-180, 180))


@examples(max_examples=100)
@given(points, points)
def test_a_distance_is_symmetric_and_at_most_half_around_the_earth(
    one: tuple[float, float], other: tuple[float, float]
) -> None:
    metres = distance(one, other)

    assert 0 <= metres <= 20_015_115
    assert metres == pytest.approx(distance(other, one), abs=0.01)


@examples(max_examples=100)
@given(st.floats(-80, 80), st.floats(-179, 179), st.floats(1, 1000))
def test_a_short_distance_is_that_of_the_plane(latitude: float, longitude: float, metres: float) -> None:
    east = metres * METRE / cos(radians(latitude))

    assert distance((latitude, longitude), (latitude, longitude + east)) == pytest.approx(metres, rel=0.001)


@examples(max_examples=100)
@given(st.booleans(), st.lists(st.floats(-20, 20), max_size=20), st.floats(50, 5000))
def test_a_position_that_wavers_at_the_edge_changes_at_most_once(was: bool, noise: list[float], radius: float) -> None:
    states: list[bool | None] = [was]
    for offset in noise:
        states.append(is_inside(states[-1], radius + offset, radius=radius, accuracy=20))

    assert sum(one != other for one, other in pairwise(states)) <= 1
