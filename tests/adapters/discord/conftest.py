"""A server with a channel, people in it, and a running Parley whose bot listens there."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr

from adapters.discord.platform import DiscordPlatform
from adapters.discord.settings import DiscordSettings
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.discord import DiscordStandIn, Json, Person
from tests.standins.openai_api import OpenAIStub
from tests.support.chat_scene import ChatScene, Connections

# Seconds that Discord wants between two sessions, here short: tests start the bot again at once.
BETWEEN_STARTS = 0.05


@dataclass(kw_only=True)
class Scene(ChatScene):
    """Discord with Ann and Bob on a server, and Parley with its bot."""

    discord: DiscordStandIn
    ann: Person
    bob: Person
    guild: Json
    general: Json
    own: DiscordSettings

    @property
    def connections(self) -> Connections:
        return self.discord.gateway

    def build(self, **options: Any) -> DiscordPlatform:
        return DiscordPlatform(self.own, **options)


def make_scene(discord: DiscordStandIn, settings: Settings) -> Scene:
    """Return a scene on a stand-in; its Parley is still closed."""
    ann, bob = Person(discord, "Ann"), Person(discord, "Bob")
    guild = discord.world.add_guild("Acme", ann.user)
    bob.joins(guild)
    general = discord.world.add_channel(guild["id"], "general", "Bikes and boats")
    own = DiscordSettings(
        token=SecretStr(discord.token),
        api_base=discord.api_base,
        gateway=discord.gateway.url,
        cdn_base=discord.cdn_base,
        session_seconds=2 * BETWEEN_STARTS,
    )
    return Scene(discord=discord, ann=ann, bob=bob, guild=guild, general=general, settings=settings, own=own)


@pytest.fixture
async def discord() -> AsyncIterator[DiscordStandIn]:
    async with DiscordStandIn() as standin:
        standin.gateway.identify_seconds = BETWEEN_STARTS
        yield standin


@pytest.fixture
def scene(discord: DiscordStandIn, settings: Settings) -> Scene:
    """Everything but Parley: tests that prepare something open it themselves."""
    return make_scene(discord, settings)


@pytest.fixture
async def server(scene: Scene, address: Address, model: OpenAIStub) -> AsyncIterator[Scene]:
    """The scene with its Parley open."""
    async with scene.opened(address, model):
        yield scene
