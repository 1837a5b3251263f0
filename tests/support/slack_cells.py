"""An app whose workspaces live in two cells: a door that listens for both, and a worker in each."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from pydantic import SecretStr

from adapters.cells.moves import move_server
from adapters.slack.platform import SlackPlatform
from tests.adapters.slack.conftest import Scene
from tests.standins.openai_api import OpenAIStub
from tests.standins.slack import Admin, Json, Person
from tests.support.cells import CellDatabases, TwoCells, door_settings, open_cells
from tests.support.chat_scene import ended
from tests.support.slack_transports import with_address


@dataclass
class Workspace:
    """A workspace beside the first one: its admin Fred and its channel. `door` is a task, which can be ended."""

    scene: Scene
    cells: TwoCells
    team: Json
    fred: Admin
    pier: Json
    door: asyncio.Task[None]

    @property
    def team_id(self) -> str:
        return str(self.team["id"])

    async def installs(self) -> str:
        """Install the app; return the last page."""
        status, page = await self.fred.installs(f"{self.cells.client.base_url}/slack/install")
        assert status == 200, page
        installation = self.scene.slack.world.installation_of(self.team_id)
        assert installation is not None
        self.scene.slack.world.members[self.pier["id"]].add(installation.bot["id"])
        return page

    async def moves(self, source: str = "a", target: str = "b") -> list[str]:
        """Move it to another cell; return what the command says."""
        lines: list[str] = []
        async with self.cells.moving(source, target, self.team_id, platform="slack") as moving:
            await move_server(moving, lines.append, seconds=60)
        return lines

    async def heard(self, person: Person, channel: Json | None = None, count: int = 1) -> list[str]:
        """Return the first lines of the bot's messages as soon as there are this many."""
        return [text.partition("\n")[0] for text in await person.hears(channel, count)]

    async def until_count(self, cell: str, count: int, condition: str = "status = 'answered'") -> None:
        """Return once a cell has so many messages."""
        await self.cells.until(cell, f"SELECT count(*) = {count} FROM inbox WHERE {condition}")  # noqa: S608  # ours


@asynccontextmanager
async def open_workspace(
    scene: Scene, databases: CellDatabases, model: OpenAIStub, *, by_http: bool
) -> AsyncIterator[Workspace]:
    """Open both cells with an app that anybody may install, and a door."""
    slack, secret = scene.slack, SecretStr(scene.slack.client_secret)
    slack.delivery.ack_seconds = 60
    own = replace(scene.own, client_id=slack.client_id, client_secret=secret)
    if by_http:
        own = replace(own, app_token=None, signing_secret=SecretStr(slack.signing_secret))
    scene = with_address(replace(scene, own=own, settings=door_settings(scene.settings)))
    async with open_cells(scene.settings, databases, model, scene.build) as cells:
        scene.parley = cells.parleys["a"]
        platform = scene.parley.app.senders["slack"]
        assert isinstance(platform, SlackPlatform)
        platform.cells = cells.cells
        listening = asyncio.create_task(platform.listen(scene.parley.app))
        try:
            if by_http:
                url = f"{cells.client.base_url}/slack"
                urls = {"interactions": f"{url}/interactions", "commands": f"{url}/commands"}
                await slack.delivery.deliver_to(f"{url}/events", **urls)
            else:
                await slack.socket.until()
            team = slack.world.add_team("Lake")
            fred, pier = Admin(slack, "Fred", team=team), slack.world.add_channel("pier", team)
            fred.joins(pier)
            yield (workspace := Workspace(scene, cells, team, fred, pier, listening))
            listening = workspace.door
        finally:
            await ended(listening)
