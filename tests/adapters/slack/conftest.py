"""A workspace with a channel, people in it, and a house whose app listens there."""

import asyncio
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pytest
from pydantic import SecretStr

from adapters.slack.platform import SlackPlatform
from shared.db.database import Address
from shared.settings import Settings, prepare_litellm_environment
from tests.standins.openai_api import OpenAIStub
from tests.standins.slack import Json, Person, SlackStandIn
from tests.support.house import House, open_house


@dataclass
class Scene:
    """Slack with Ann and Bob in a workspace, and the house with its app."""

    slack: SlackStandIn
    ann: Person
    bob: Person
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

    def refusals(self) -> list[tuple[str, str | None]]:
        """Return what Slack has refused; a right that is only tried is none."""
        return [(each.method, each.error) for each in self.slack.journal.refused]


@pytest.fixture
async def slack() -> AsyncIterator[SlackStandIn]:
    async with SlackStandIn() as standin:
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
def scene(slack: SlackStandIn, settings: Settings) -> Scene:
    """Everything but the house: tests that prepare something open it themselves."""
    general = slack.world.add_channel("general", topic="Frogs and toads")
    ann, bob = Person(slack, "Ann"), Person(slack, "Bob")
    ann.joins(general)
    bob.joins(general)
    given = {
        "slack_bot_token": SecretStr(slack.bot_token),
        "slack_app_token": SecretStr(slack.app_token),
        "slack_api_base": slack.api_base,
    }
    return Scene(slack, ann, bob, general, settings.model_copy(update=given))


async def ended(listening: "asyncio.Task[None]") -> None:
    """Stop somebody who listens."""
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


@asynccontextmanager
async def opened(
    scene: Scene, address: Address, model: OpenAIStub, *, listens: bool = True, works: bool = True
) -> AsyncIterator[Scene]:
    """Open the house: with an app that listens, a worker, or both."""
    platform = SlackPlatform(scene.settings)
    async with open_house(scene.settings, address, model, senders={"slack": platform}, works=works) as house:
        scene.house = house
        listening = asyncio.create_task(platform.listen(house.app)) if listens else None
        try:
            if listening is not None:
                await scene.slack.socket.until()
            yield scene
        finally:
            if listening is not None:
                await ended(listening)


@pytest.fixture
async def office(scene: Scene, address: Address, model: OpenAIStub) -> AsyncIterator[Scene]:
    """The scene with its house open."""
    async with opened(scene, address, model):
        yield scene
