"""Payloads as Discord documents them, over the wire and through the library: what they are in our shape."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import discord
import pytest
from msgspec.structs import asdict, fields

from adapters.discord.events.incoming import is_written_by_a_person, mentions_agent, to_incoming
from adapters.discord.transport.library import client_options, redirect
from shared.messages import IncomingMessage
from tests.adapters.discord.conftest import Scene
from tests.support.chat_scene import ended
from tests.support.eventually import PATIENCE

FOLDER = Path(__file__).parents[1] / "fixtures" / "discord"
MESSAGES = sorted(path for path in FOLDER.glob("*.json") if path.stem != "guild")
BOT = "1279000000000000001"
OPTIONAL = {field.name: field.default for field in fields(IncomingMessage)}


class Listener(discord.Client):
    """The library's client, which hands over what it makes of the events."""

    def __init__(self) -> None:
        super().__init__(**client_options(aiohttp.TraceConfig()))
        self.heard: asyncio.Queue[discord.Message] = asyncio.Queue()
        self.joined = asyncio.Event()

    async def on_message(self, message: discord.Message) -> None:
        self.heard.put_nowait(message)

    async def on_guild_available(self, _guild: discord.Guild) -> None:
        self.joined.set()


@pytest.fixture
async def listener(scene: Scene) -> AsyncIterator[Listener]:
    """A client that is connected and knows the server of the fixtures."""
    scene.discord.world.bot["id"] = BOT
    scene.discord.world.guilds.clear()
    redirect(scene.own)
    client = Listener()
    running = asyncio.create_task(client.start(scene.discord.token))
    try:
        await scene.discord.gateway.until()
        await client.wait_until_ready()
        guild = json.loads((FOLDER / "guild.json").read_text())["event"]
        await scene.discord.gateway.dispatch("GUILD_CREATE", guild, None)
        async with asyncio.timeout(PATIENCE):
            await client.joined.wait()
        yield client
    finally:
        await client.close()
        await ended(running)


def to_plain(value: Any) -> Any:
    """Return what JSON does not know as what it does."""
    return value.isoformat() if isinstance(value, datetime) else asdict(value)


def to_json(message: discord.Message) -> dict[str, Any]:
    """Return the message in our shape, without empty fields, and whether it mentions the agent."""
    incoming = to_incoming(message, int(BOT))
    fields_set = {key: value for key, value in asdict(incoming).items() if value != OPTIONAL.get(key)}
    result: dict[str, Any] = json.loads(json.dumps(fields_set, default=to_plain))
    around = result["platform_context"].items()
    result["platform_context"] = {
        key: value for key, value in around if value is not None and (value or key == "role_ids")
    }
    for attachment in result.get("attachments", ()):
        if attachment["author"] == "person":
            del attachment["author"]
    return result | {"calls": mentions_agent(message, int(BOT))}


async def test_payloads_of_discord_become_our_messages(scene: Scene, listener: Listener) -> None:
    assert len(MESSAGES) > 10
    for path in MESSAGES:
        case = json.loads(path.read_text())
        await scene.discord.gateway.dispatch("MESSAGE_CREATE", case["event"], None)
        async with asyncio.timeout(PATIENCE):
            message = await listener.heard.get()
        result = to_json(message) if is_written_by_a_person(message) else None
        assert (path.stem, result) == (path.stem, case["expected"])
