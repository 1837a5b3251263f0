"""A server with a channel, people in it, and a house whose bot listens there."""

import asyncio
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pytest
from pydantic import SecretStr

from adapters.discord.platform import DiscordPlatform
from shared.db.database import Address
from shared.settings import Settings, prepare_litellm_environment
from tests.standins.discord import DiscordStandIn, Json, Person
from tests.standins.openai_api import OpenAIStub
from tests.support.house import House, open_house


@dataclass
class Scene:
    """Discord with Ann and Bob on a server, and the house with its bot."""

    discord: DiscordStandIn
    ann: Person
    bob: Person
    guild: Json
    general: Json
    settings: Settings
    house: House = field(init=False)

    @property
    def model(self) -> OpenAIStub:
        return self.house.model

    async def sql(self, statement: str, **given: Any) -> list[Any]:
        return await self.house.sql(statement, **given)

    async def value(self, statement: str, **given: Any) -> Any:
        return await self.house.value(statement, **given)

    async def until_value(self, wanted: Any, statement: str, **given: Any) -> None:
        """Return once a query gives this."""
        for _ in range(1500):
            rows = await self.sql(statement, **given)
            if rows and rows[0][0] == wanted:
                return
            await asyncio.sleep(0.02)
        assert rows == [(wanted,)]

    def prompt(self, number: int = -1) -> str:
        """Return the last user message that the model was shown."""
        content: str = self.model.requests[number].body["messages"][-1]["content"]
        return content


@pytest.fixture
async def discord() -> AsyncIterator[DiscordStandIn]:
    async with DiscordStandIn() as standin:
        yield standin


@pytest.fixture(scope="session", autouse=True)
def loaded() -> None:
    """Load the models' library, which takes seconds: no answer is to be slow because of that."""
    prepare_litellm_environment()
    with warnings.catch_warnings():
        # pydantic builds these at their first use, and warns of a type in them.
        warnings.simplefilter("ignore")
        import_module("litellm.types.utils").ModelResponse()


@pytest.fixture
def scene(discord: DiscordStandIn, settings: Settings) -> Scene:
    """Everything but the house: tests that prepare something open it themselves."""
    ann, bob = Person(discord, "Ann"), Person(discord, "Bob")
    guild = discord.world.add_guild("The Pond", ann.user)
    bob.joins(guild)
    general = discord.world.add_channel(guild["id"], "general", "Frogs and toads")
    given = {
        "discord_token": SecretStr(discord.token),
        "discord_api_base": discord.api_base,
        "discord_gateway": discord.gateway.url,
        "discord_cdn_base": discord.cdn_base,
    }
    return Scene(discord, ann, bob, guild, general, settings.model_copy(update=given))


async def ended(listening: "asyncio.Task[None]") -> None:
    """Stop somebody who listens."""
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


@asynccontextmanager
async def opened(
    scene: Scene, address: Address, model: OpenAIStub, *, listens: bool = True, works: bool = True, **options: Any
) -> AsyncIterator[Scene]:
    """Open the house: with a bot that listens, a worker, or both; `options` are the library's."""
    platform = DiscordPlatform(scene.settings, **options)
    async with open_house(scene.settings, address, model, senders={"discord": platform}, works=works) as house:
        scene.house = house
        listening = asyncio.create_task(platform.listen(house.app)) if listens else None
        try:
            if listening is not None:
                await scene.discord.gateway.until()
            yield scene
        finally:
            if listening is not None:
                await ended(listening)


@pytest.fixture
async def pond(scene: Scene, address: Address, model: OpenAIStub) -> AsyncIterator[Scene]:
    """The scene with its house open."""
    async with opened(scene, address, model):
        yield scene
