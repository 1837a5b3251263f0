"""One person on Discord and on Matrix, and one agent on both."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from shared.db.database import Address
from tests.adapters.discord.conftest import BETWEEN_STARTS, make_scene
from tests.adapters.discord.conftest import Scene as DiscordScene
from tests.adapters.matrix.conftest import Scene
from tests.standins.discord import DiscordStandIn
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.chat_scene import ended
from tests.support.parley import open_parley

PROMOTE = """
UPDATE users SET permission_level = 'user', token_budget_monthly = 1000000
WHERE id = (SELECT user_id FROM user_platform_links WHERE platform_user_id = :account)
"""


@asynccontextmanager
async def opened(matrix: Scene, address: Address, model: OpenAIStub) -> AsyncIterator[DiscordScene]:
    """Open one Parley with both platforms."""
    async with DiscordStandIn() as standin:
        standin.gateway.identify_seconds = BETWEEN_STARTS
        discord = make_scene(standin, matrix.settings)
        platforms = [discord.build(), matrix.build()]
        senders = {platform.name: platform for platform in platforms}
        async with open_parley(matrix.settings, address, model, senders=senders) as parley:
            discord.parley = matrix.parley = parley
            listening = [asyncio.create_task(platform.listen(parley.app)) for platform in platforms]
            try:
                await discord.connections.until()
                await matrix.connections.until()
                yield discord
            finally:
                await asyncio.gather(*map(ended, listening))


def remember(fact: str) -> Answer:
    return Answer(tool_calls=[("knowledge__remember", {"content": fact})])


async def test_who_is_linked_is_one_person_on_both_and_a_rooms_memory_stays_there(
    scene: Scene, address: Address, model: OpenAIStub, owner: asyncpg.Connection
) -> None:
    club, own = remember("The boat of the club is called Thunder"), remember("Ann's bike is called Flash")
    model.play([Answer("Hello, Discord."), Answer("Hello, Matrix."), club, Answer("Both know."), own, Answer("Noted.")])
    async with opened(scene, address, model) as discord:
        await discord.ann.says("hello", discord.ann.dm())
        await discord.ann.hears(discord.ann.dm())
        await scene.ann.says(scene.direct, "hello")
        await scene.hears("Hello, Matrix.")
        await owner.execute("SELECT admin.link_accounts('matrix', $1, 'discord', $2)", scene.ann.id, discord.ann.id)
        await scene.sql(PROMOTE, account=discord.ann.id)
        await discord.ann.asks("our boat is called Thunder", discord.general)
        await discord.ann.hears(discord.general)
        await discord.ann.says("my bike is called Flash", discord.ann.dm())
        await discord.ann.hears(discord.ann.dm(), 2)

        model.play([Answer("Flash."), Answer("No idea.")])
        await check_memory(scene)
        await check_budget(scene, discord)


async def check_memory(scene: Scene) -> None:
    """On the other platform her own is remembered, in a room neither that nor a channel's; she may what she may."""
    await scene.ann.says(scene.direct, "what is my bike called?")
    await scene.hears("Flash.")
    request = str(scene.model.requests[-1].body)
    assert ("bike is called Flash" in request, "calendar__list_holidays" in request) == (True, True)
    mention = {"m.mentions": {"user_ids": [scene.agent.id]}}
    await scene.ann.says(scene.room, "what is my bike called, and what the boat of the club?", **mention)
    await scene.hears("No idea.", scene.room)
    request = str(scene.model.requests[-1].body)
    assert ("Flash" in request, "Thunder" in request) == (False, False)


async def check_budget(scene: Scene, discord: DiscordScene) -> None:
    """What she has used on one platform is used on both."""
    await scene.sql("UPDATE users SET token_budget_monthly = tokens_used_this_month WHERE permission_level = 'user'")
    count = scene.model.count
    await scene.ann.says(scene.direct, "and now?")
    await scene.ann.sees(lambda: len(scene.ann.texts(scene.agent.id, scene.direct)) == 3)
    await discord.ann.says("and now?", discord.ann.dm())
    refusals = [(await discord.ann.hears(discord.ann.dm(), 3))[2], scene.ann.texts(scene.agent.id, scene.direct)[2]]
    assert [("budget" in refusal, scene.model.count) for refusal in refusals] == [(True, count)] * 2
