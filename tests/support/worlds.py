"""Accounts and rooms at the homeserver of a process: tests take them in turn, because rooms cost it much to make."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from adapters.matrix.client import PROFILE
from tests.support.folders import temporary_folder
from tests.support.synapse import Homeserver, Person, running_synapse


@dataclass
class World:
    """The agent and two people. All three are in `room`, which is in no space; each person is alone with the agent."""

    homeserver: Homeserver
    agent: Person
    ann: Person
    bob: Person
    room: str
    direct: str
    bobs_direct: str
    space: str = ""
    # Those of the space.
    channels: list[str] = field(default_factory=list)
    is_limited: bool = False
    # Whether it is left behind as nobody wants to find it.
    is_spoilt: bool = False

    async def make_channel(self, name: str, number: int) -> str:
        """Return the room with this number of the space, made if there are fewer."""
        if not self.space:
            options = {"creation_content": {"type": "m.space"}, "preset": "public_chat", "name": "Acme"}
            self.space = await self.ann.makes_room(**options)
            await self.agent.joins(self.space)
        while len(self.channels) <= number:
            room = await self.ann.makes_room(preset="public_chat", name=name)
            await self.agent.joins(room)
            await self.bob.joins(room)
            content = {"via": ["matrix.test"]}
            await self.ann.call("PUT", "rooms", self.space, "state", "m.space.child", room, body=content)
            self.channels.append(room)
        return self.channels[number]

    async def limit_rate(self, per_second: int | None) -> None:
        """Let the homeserver take so many messages of the agent; None: as many as usual."""
        if per_second is not None or self.is_limited:
            await self.homeserver.limit_rate(self.agent, per_second)
            self.is_limited = per_second is not None


@dataclass
class Worlds:
    """The worlds of a homeserver of which no test is."""

    homeserver: Homeserver
    free: list[World] = field(default_factory=list)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[World]:
        """Take a world for the block: nobody in it has heard anything yet."""
        world = self.free.pop() if self.free else await make_world(self.homeserver)
        for room in (world.room, world.direct, world.bobs_direct, *world.channels):
            await show_bare(world.agent, room)
        for person in (world.agent, world.ann, world.bob):
            await person.forgets()
        yield world
        if not world.is_spoilt:
            self.free.append(world)


async def show_bare(agent: Person, room: str) -> None:
    """Let the agent have its own name and picture in a room, whatever a persona of another test has left."""
    path = ("rooms", room, "state", "m.room.member", agent.id)
    if PROFILE in await agent.call("GET", *path):
        profile = await agent.call("GET", "profile", agent.id)
        await agent.call("PUT", *path, body={"membership": "join", **profile})


async def make_world(homeserver: Homeserver) -> World:
    """Register the accounts and make the rooms."""
    number = uuid4().hex[:8]
    agent, ann, bob = [await homeserver.register(f"{name}-{number}") for name in ("parley", "ann", "bob")]
    room = await ann.makes_room(agent.id, bob.id, name="Bikes")
    anns_direct, bobs_direct = [await person.makes_room(agent.id, is_direct=True) for person in (ann, bob)]
    for person, joined in ((agent, room), (bob, room), (agent, anns_direct), (agent, bobs_direct)):
        await person.joins(joined)
    noted = {ann.id: [anns_direct], bob.id: [bobs_direct]}
    await agent.call("PUT", "user", agent.id, "account_data", "m.direct", body=noted)
    return World(homeserver, agent, ann, bob, room, anns_direct, bobs_direct)


@asynccontextmanager
async def open_worlds() -> AsyncIterator[Worlds]:
    """Run a homeserver for the block."""
    with temporary_folder("synapse") as folder:
        async with running_synapse(folder) as homeserver:
            yield Worlds(homeserver)
