"""One process before two cells that listens to Slack and to Discord."""

import asyncio

import pytest

from adapters.base import ChatPlatform
from adapters.cells.moves import move_server
from shared.settings import Settings
from tests.adapters.discord.conftest import BETWEEN_STARTS
from tests.adapters.discord.conftest import make_scene as make_discord
from tests.adapters.slack.conftest import make_scene as make_slack
from tests.standins.discord import DiscordStandIn
from tests.standins.openai_api import OpenAIStub
from tests.standins.slack import SlackStandIn
from tests.support.cells import CellDatabases, TwoCells, door_settings, open_cells
from tests.support.chat_scene import ended

THREE = "SELECT count(*) = 3 FROM inbox WHERE status = 'answered'"


async def move(cells: TwoCells, platform: str, server: str) -> None:
    async with cells.moving("a", "b", server, platform=platform) as moving:
        await move_server(moving, lambda _line: None, seconds=60)


@pytest.mark.parametrize("gone", ["slack", "discord"])
async def test_each_platform_is_served_by_the_cells_of_its_own_servers(
    settings: Settings, cell_databases: CellDatabases, model: OpenAIStub, gone: str
) -> None:
    async with SlackStandIn() as slack, DiscordStandIn() as discord:
        discord.gateway.identify_seconds = BETWEEN_STARTS
        there, here = make_slack(slack, settings), make_discord(discord, settings)
        server = slack.team_id if gone == "slack" else here.guild["id"]

        def build() -> list[ChatPlatform]:
            return [there.build(), here.build()]

        async with open_cells(door_settings(settings), cell_databases, model, build) as cells:
            app = cells.parleys["a"].app
            platforms = [sender for sender in app.senders.values() if isinstance(sender, ChatPlatform)]
            for platform in platforms:
                platform.cells = cells.cells
            listening = [asyncio.create_task(platform.listen(app)) for platform in platforms]
            try:
                await slack.socket.until()
                await discord.gateway.until()
                await there.ann.mentions(there.general, "before")
                await here.ann.asks("before", here.general)
                await cells.until("a", "SELECT count(*) = 2 FROM inbox WHERE status = 'answered'")
                during = [
                    asyncio.create_task(there.ann.mentions(there.general, "during")),
                    asyncio.create_task(here.ann.asks("during", here.general)),
                ]
                await move(cells, gone, server)
                await asyncio.gather(*during)
                await there.ann.mentions(there.general, "after")
                await here.ann.asks("after", here.general)
                await cells.until("a", THREE)
                await cells.until("b", THREE)
                assert await cells.sql("a", f"SELECT FROM inbox WHERE platform = '{gone}'") == []
                assert len(await there.ann.hears(there.general, 3)) == 3
                assert len(await here.ann.hears(here.general, 3)) == 3
            finally:
                await asyncio.gather(*map(ended, listening))
