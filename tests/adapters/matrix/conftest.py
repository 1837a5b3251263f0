"""One homeserver for all tests of a process, a proxy before it, and in each test the agent, two people and a room."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from pydantic import SecretStr

from adapters.matrix.platform import MatrixPlatform
from adapters.matrix.settings import MatrixSettings
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.chat_scene import ChatScene
from tests.support.eventually import eventually
from tests.support.homeserver_proxy import HomeserverProxy
from tests.support.shared import Shared
from tests.support.synapse import Homeserver, Person
from tests.support.worlds import World, open_worlds


class HastyPlatform(MatrixPlatform):
    """One that soon gives up what it asks for."""

    patience = 3.0


@dataclass
class Listeners:
    """The adapters that listen through a proxy."""

    proxy: HomeserverProxy

    async def until(self, count: int = 1) -> None:
        await self.proxy.until(lambda: self.proxy.listeners >= count)

    async def until_gone(self) -> None:
        await self.proxy.until(lambda: not self.proxy.listeners)


@dataclass(kw_only=True)
class Scene(ChatScene):
    """Ann, Bob and the agent at a homeserver."""

    world: World
    proxy: HomeserverProxy
    invites: str = "all"
    is_hasty: bool = False
    most_bytes: int | None = None

    @property
    def connections(self) -> Listeners:
        return Listeners(self.proxy)

    @property
    def homeserver(self) -> Homeserver:
        return self.world.homeserver

    @property
    def agent(self) -> Person:
        return self.world.agent

    @property
    def ann(self) -> Person:
        return self.world.ann

    @property
    def bob(self) -> Person:
        return self.world.bob

    @property
    def room(self) -> str:
        return self.world.room

    @property
    def direct(self) -> str:
        return self.world.direct

    @property
    def own(self) -> MatrixSettings:
        return MatrixSettings(self.proxy.base, self.agent.id, SecretStr(self.agent.token), self.invites)

    def environment(self) -> dict[str, str]:
        """Return the platform's settings."""
        names = {
            "HOMESERVER": self.proxy.base,
            "USER": self.agent.id,
            "TOKEN": self.agent.token,
            "INVITES": self.invites,
        }
        return {f"MATRIX_{name}": value for name, value in names.items()}

    def build(self, **options: Any) -> MatrixPlatform:
        platform = (HastyPlatform if self.is_hasty else MatrixPlatform)(self.own, **options)
        platform.client.most_bytes = self.most_bytes or platform.client.most_bytes
        return platform

    async def until_taken(self, event_id: str) -> None:
        """Return once the adapter has noted that it is done with an event."""

        async def is_taken() -> bool:
            return event_id in self.proxy.list_told(await self.value("SELECT max(mark) FROM chat_listeners"))

        await eventually(is_taken)

    async def hears(self, text: str, room: str = "") -> str:
        """Return the id of the agent's message in the direct room, or another, once Ann sees this text."""
        return await self.ann.hears(self.agent.id, room or self.direct, text)


@asynccontextmanager
async def made_scene(shared: Shared, settings: Settings) -> AsyncIterator[Scene]:
    """Make a scene for the block; its Parley is still closed."""
    worlds = await shared.get(open_worlds)
    # Transactions are named by the secret and a turn's number, and the account is one that others had before.
    settings = settings.model_copy(update={"secret_key": SecretStr(uuid4().hex)})
    async with worlds.taken() as world, HomeserverProxy(world.homeserver.address) as proxy:
        yield Scene(settings=settings, general={"id": world.room}, world=world, proxy=proxy)


@pytest.fixture
async def scene(shared: Shared, settings: Settings) -> AsyncIterator[Scene]:
    """Everything but Parley: tests that prepare something open it themselves."""
    async with made_scene(shared, settings.model_copy(update={"default_guest_token_budget": 1_000_000})) as scene:
        yield scene


@pytest.fixture
async def matrix(scene: Scene, address: Address, model: OpenAIStub) -> AsyncIterator[Scene]:
    """The scene with its Parley open."""
    async with scene.opened(address, model):
        yield scene
