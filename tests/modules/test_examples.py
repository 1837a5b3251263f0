"""The examples in the docstrings of all tools are calls that work: each is made in a turn, as a model would make it."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.tools.modules import discover
from shared.db.database import Address
from shared.messages import Place
from shared.settings import Settings
from shared.tools import Tool
from tests.modules.weather.test_weather import FORECAST, TEXAS
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body
from tests.support.loopback import Request, Server, reply, serving
from tests.support.parley import Parley, open_parley
from tests.support.pictures import picture
from tests.support.tool_calls import variables

PLACEHOLDER = re.compile(r"\{(\w+)\}")
# In place of this one, which no test may reach, the stand-in for the web is asked.
SITE = "https://town.example"
# Stays are booked a few years ahead at most: here it is always next year.
YEAR, NEXT_YEAR = "2030-", f"{datetime.now(UTC).year + 1}-"
PAGE = b"<html><head><title>Bridge</title></head><body><article><p>It opens on 3 May 2026.</p></article></body></html>"
ROWS = (
    "INSERT INTO users (permission_level, token_budget_monthly) VALUES ('owner', NULL)",
    "INSERT INTO user_platform_links (user_id, platform, platform_user_id) SELECT id, 'test', 'ann' FROM users",
    "INSERT INTO rooms (name) VALUES ('Garden')",
    "INSERT INTO room_rates (room_id, days, price) SELECT id, '[2020-01-01,2999-01-01)', 90 FROM rooms",
    (
        "INSERT INTO bookings (room_id, user_id, stay, status, held_until, total)"
        " SELECT rooms.id, users.id, '[2090-06-01,2090-06-02)', 'held', '2090-01-01', 90 FROM rooms, users"
    ),
)
AFTERWARDS = (
    (
        "INSERT INTO location_places (user_id, name, latitude, longitude, radius_metres)"
        " VALUES (1, 'home', 39.8, -89.6, 150), (1, 'office', 39.9, -89.7, 150)"
    ),
    (
        "INSERT INTO location_trackers (user_id, password_hash, latitude, longitude, accuracy_metres, recorded_at)"
        " VALUES (1, 'unknown', 39.8, -89.6, 10, now())"
    ),
    (
        "INSERT INTO location_reminders (user_id, place_id, conversation_id, adapter, platform_user_id, event, content)"
        " SELECT 1, 1, id, 'test', 'ann', 'enter', 'Feed the bikes.' FROM conversations"
    ),
)


async def the_web(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer as a search engine, a service for the weather or a page."""
    content: object = FORECAST
    if request.path.startswith("/v1/search"):
        content = {"results": [TEXAS]}
    elif request.path.startswith("/geocoder/search"):
        content = [{"display_name": "1 Market Street, Springfield", "lat": "39.8", "lon": "-89.6"}]
    elif request.path.startswith("/search"):
        content = {"results": [{"title": "Bridge", "url": f"{SITE}/bridge", "content": "It opens in May."}]}
    elif request.path.startswith("/bridge"):
        return await reply(PAGE, headers={"Content-Type": "text/html"})(request, writer)
    await reply(json.dumps(content).encode())(request, writer)
    return None


@pytest.fixture
async def web() -> AsyncIterator[Server]:
    async with serving(the_web) as server:
        yield server


@pytest.fixture
async def parley(
    settings: Settings, address: Address, model: OpenAIStub, tmp_path: Path, web: Server
) -> AsyncIterator[Parley]:
    """A Parley in which all tools are on, with what the examples name."""
    async with AsyncExitStack() as stack:
        stack.enter_context(
            variables(
                CODE_EXECUTOR_SHELL="true",
                IMAGES_MODEL="openai/gpt-image-1",
                LOCATION_GEOCODER_URL=f"{web.origin}/geocoder",
                RESEARCH_SEARXNG_URL=web.origin,
                VOICE_SPEECH_MODEL="openai/tts-1",
                WEATHER_URL=web.origin,
                WEATHER_GEOCODING_URL=web.origin,
            )
        )
        configuration = settings.model_copy(update={"egress_allow": (web.origin,)})
        parley = await stack.enter_async_context(open_parley(configuration, address, model))
        for row in ROWS:
            await parley.sql(row)
        home = Place("test", None, "home", is_direct=True)
        await parley.app.memory.of_user(1, home, None).remember("Ann likes green tea.")
        for name in ("orders", "ledger"):
            path = tmp_path / f"{name}.csv"
            path.write_text("region,amount\nEU,300.30\n" + ("US,50\n" if name == "orders" else ""))
            await parley.sql(
                "INSERT INTO data_sources (name, kind, path) VALUES (:name, 'file', :path)", name=name, path=str(path)
            )
        files = {"notes.md": (b"Water the plants.", "text/markdown"), "tree.png": (picture(), "image/png")}
        for name, (content, mime_type) in files.items():
            await parley.app.files.storage.put(f"inbox/{name}", content, mime_type)
        await parley.ask("keep these", attachments=[parley.attach(file, f"inbox/{file}", size=1000) for file in files])
        for row in AFTERWARDS:
            await parley.sql(row)
        yield parley


# Some forty turns, and programs of their own for tables and charts.
@pytest.mark.timeout(300)
async def test_every_example_of_every_tool_works(parley: Parley, model: OpenAIStub, web: Server) -> None:
    # Those that change what others read come last; each has a conversation of its own, so that none is tainted.
    tools = sorted(discover(settings=Settings()).tools.values(), key=lambda tool: (not tool.read_only, tool.name))
    wrong = []
    for tool in tools:
        assert tool.examples, f"{tool.name} has no example"
        for number, (arguments, text) in enumerate(tool.examples):
            call_arguments = json.loads(json.dumps(arguments).replace(SITE, web.origin).replace(YEAR, NEXT_YEAR))
            model.play(lambda body, _number, tool=tool, parameters=call_arguments: answer(body, tool, parameters))
            response = await parley.ask("go on", channel=f"{tool.name}-{number}")
            results = [json.dumps(call.result, ensure_ascii=False) for call in response.tool_calls_made]
            if text not in "\n".join([*results, response.content]) or '"error": true' in "".join(results):
                wrong.append(f"{tool.name}: {results} {response.content}")
    assert wrong == []


def answer(body: Body, tool: Tool, arguments: dict[str, object]) -> Answer:
    """Call the tool, then end; without tools it is the tool that asks."""
    if not body.get("tools"):
        return Answer("The bridge opens on 3 May.")
    is_called = any(message["role"] == "tool" for message in body["messages"])
    return Answer("Done.") if is_called else Answer(tool_calls=[(tool.wire_name, arguments)])


def test_every_tool_says_in_words_what_a_call_does_and_has_done() -> None:
    for tool in discover(settings=Settings()).tools.values():
        assert tool.words is not None, f"{tool.name} has no words"
        running, done = tool.words
        assert running != done, tool.name
        for sentence in tool.words:
            assert set(PLACEHOLDER.findall(sentence)) <= set(tool.parameters), tool.name


def test_examples_are_not_sent_to_models() -> None:
    async def roll(_context: object, sides: int) -> None:
        """Roll dice.

        Example: {"sides": 6} -> "rolled":
        [
        """

    tool = replace(next(iter(discover(settings=Settings()).tools.values())), run=roll)

    assert tool.description == "Roll dice."
    assert tool.examples == [({"sides": 6}, '"rolled": [')]
