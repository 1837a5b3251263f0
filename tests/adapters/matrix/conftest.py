"""One homeserver for all tests of a process, and for each test an account of the agent, two people and a room."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import pytest
from pydantic import SecretStr

from adapters.cli.opening import prepare
from adapters.matrix.platform import MatrixPlatform
from adapters.matrix.settings import MatrixSettings
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.chat_scene import ended
from tests.support.parley import Parley, open_parley
from tests.support.synapse import Homeserver, Person, running_synapse

LISTENS = "SELECT count(*) FROM chat_listeners WHERE mark IS NOT NULL AND leased_until > now()"


@dataclass
class Scene:
    """Ann, Bob and the agent at a homeserver; all three are in `room`, and Ann and the agent in `direct`."""

    settings: Settings
    homeserver: Homeserver
    agent: Person
    ann: Person
    bob: Person
    room: str = ""
    direct: str = ""
    invites: str = "all"
    parley: Parley = field(init=False)

    @property
    def own(self) -> MatrixSettings:
        token = SecretStr(self.agent.token)
        return MatrixSettings(homeserver=self.homeserver.address, token=token, invites=self.invites)

    @asynccontextmanager
    async def opened(self, address: Address, model: OpenAIStub, *, listens: bool = True) -> AsyncIterator["Scene"]:
        """Open Parley with a worker, and with an adapter that listens."""
        platform = MatrixPlatform(self.own)
        await prepare(self.settings, address)
        async with open_parley(self.settings, address, model, senders={"matrix": platform}) as parley:
            self.parley = parley
            listening = asyncio.create_task(platform.listen(parley.app)) if listens else None
            try:
                if listening is not None:
                    await self.until(1, LISTENS)
                yield self
            finally:
                if listening is not None:
                    await ended(listening)

    async def until(self, value: object, statement: str) -> None:
        """Return once a query gives this value."""
        async with asyncio.timeout(60):
            while await self.parley.value(statement) != value:  # noqa: ASYNC110  # another process's row tells nobody
                await asyncio.sleep(0.05)

    async def hears(self, text: str, room: str = "") -> str:
        """Return the id of the agent's message in the direct room, or another, once Ann sees this text."""
        return await self.ann.hears(self.agent.id, room or self.direct, text)

    def prompt(self, number: int = -1) -> str:
        """Return the last user message that the model was shown."""
        return str(self.parley.model.requests[number].body["messages"][-1]["content"])


@pytest.fixture(scope="session")
async def homeserver(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Homeserver]:
    async with running_synapse(tmp_path_factory.mktemp("synapse")) as homeserver:
        yield homeserver


@pytest.fixture
async def scene(homeserver: Homeserver, settings: Settings) -> Scene:
    """The people and rooms; Parley is still closed."""
    number = uuid4().hex[:8]
    agent, ann, bob = [await homeserver.register(f"{name}-{number}") for name in ("parley", "ann", "bob")]
    scene = Scene(settings.model_copy(update={"default_guest_token_budget": 1_000_000}), homeserver, agent, ann, bob)
    scene.room = await ann.makes_room(agent.id, bob.id, name="Bikes")
    scene.direct = await ann.makes_room(agent.id, is_direct=True)
    for person, room in ((agent, scene.room), (bob, scene.room), (agent, scene.direct)):
        await person.joins(room)
    return scene


@pytest.fixture
async def matrix(scene: Scene, address: Address, model: OpenAIStub) -> AsyncIterator[Scene]:
    """The scene with Parley open."""
    async with scene.opened(address, model):
        yield scene
