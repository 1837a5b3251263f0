"""One person on Discord, on Slack and on Matrix, and one agent on all three."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncpg

from shared.db.database import Address
from tests.adapters.discord import conftest as on_discord
from tests.adapters.matrix.conftest import Scene
from tests.adapters.slack import conftest as on_slack
from tests.standins.discord import DiscordStandIn
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.slack import SlackStandIn
from tests.support.chat_scene import ended
from tests.support.parley import open_parley

PROMOTE = """
UPDATE users SET permission_level = 'user', token_budget_monthly = 1000000
WHERE id = (SELECT user_id FROM user_platform_links WHERE platform_user_id = :account)
"""


@dataclass
class Ann:
    """Ann on three platforms, where she writes to the agent alone."""

    matrix: Scene
    discord: on_discord.Scene
    slack: on_slack.Scene
    said: Counter[str] = field(default_factory=Counter)

    async def asks_on_discord(self, text: str) -> str:
        self.said["discord"] += 1
        ann = self.discord.ann
        await ann.says(text, ann.dm())
        return (await ann.hears(ann.dm(), self.said["discord"]))[-1]

    async def asks_on_slack(self, text: str) -> str:
        self.said["slack"] += 1
        await self.slack.ann.direct(text)
        return (await self.slack.ann.hears(count=self.said["slack"]))[-1]

    async def asks_on_matrix(self, text: str) -> str:
        self.said["matrix"] += 1
        ann, agent, direct = self.matrix.ann, self.matrix.agent.id, self.matrix.direct
        await ann.says(direct, text)
        await ann.sees(lambda: len(ann.texts(agent, direct)) == self.said["matrix"])
        return ann.texts(agent, direct)[-1]

    async def asks_everywhere(self, text: str) -> list[str]:
        return [await ask(text) for ask in (self.asks_on_discord, self.asks_on_slack, self.asks_on_matrix)]


@asynccontextmanager
async def opened(matrix: Scene, address: Address, model: OpenAIStub) -> AsyncIterator[Ann]:
    """Open one Parley with three platforms."""
    async with DiscordStandIn() as discord_standin, SlackStandIn() as slack_standin:
        discord_standin.gateway.identify_seconds = on_discord.BETWEEN_STARTS
        discord = on_discord.make_scene(discord_standin, matrix.settings)
        slack = on_slack.make_scene(slack_standin, matrix.settings)
        scenes = (discord, slack, matrix)
        platforms = [scene.build() for scene in scenes]
        senders = {platform.name: platform for platform in platforms}
        async with open_parley(matrix.settings, address, model, senders=senders) as parley:
            discord.parley = slack.parley = matrix.parley = parley
            listening = [asyncio.create_task(platform.listen(parley.app)) for platform in platforms]
            try:
                await asyncio.gather(*(scene.connections.until() for scene in scenes))
                yield Ann(matrix, discord, slack)
            finally:
                await asyncio.gather(*map(ended, listening))


def remember(fact: str) -> Answer:
    return Answer(tool_calls=[("knowledge__remember", {"content": fact})])


async def test_who_is_linked_is_one_person_on_all_and_a_rooms_memory_stays_there(
    scene: Scene, address: Address, model: OpenAIStub, owner: asyncpg.Connection
) -> None:
    model.play([Answer("Hello.")] * 3)
    async with opened(scene, address, model) as ann:
        assert await ann.asks_everywhere("hello") == ["Hello."] * 3
        for platform, account in (("matrix", scene.ann.id), ("slack", ann.slack.ann.id)):
            await owner.execute(
                "SELECT admin.link_accounts($1, $2, 'discord', $3)", platform, account, ann.discord.ann.id
            )
        await scene.sql(PROMOTE, account=ann.discord.ann.id)
        await check_memory(ann, model)
        await check_rooms(ann, model)
        await check_budget(ann, model)


async def check_memory(ann: Ann, model: OpenAIStub) -> None:
    """What she has said on one platform is remembered on the others, where she may what she may there."""
    model.play([remember("Ann's bike is called Flash"), Answer("Noted."), *[Answer("Flash.")] * 2])
    assert await ann.asks_on_discord("my bike is called Flash") == "Noted."
    for ask in (ann.asks_on_slack, ann.asks_on_matrix):
        assert await ask("what is my bike called?") == "Flash."
        request = str(model.requests[-1].body)
        assert ("bike is called Flash" in request, "calendar__list_holidays" in request) == (True, True)


async def check_rooms(ann: Ann, model: OpenAIStub) -> None:
    """What was said in a room is known there alone, and nothing there of what she has said directly."""
    matrix, discord, slack = ann.matrix, ann.discord, ann.slack
    model.play([remember("The boat of the club is called Thunder"), *[Answer("No idea.")] * 3])
    await discord.ann.asks("our boat is called Thunder", discord.general)
    await discord.ann.hears(discord.general)
    question = "what is my bike called, and what the boat of the club?"
    asked = await slack.ann.mentions(slack.general, question)
    await slack.ann.hears(slack.general, thread_ts=asked["ts"])
    await matrix.ann.says(matrix.room, question, **{"m.mentions": {"user_ids": [matrix.agent.id]}})
    await matrix.hears("No idea.", matrix.room)
    for request in list(model.requests)[-2:]:
        assert ("Flash" in str(request.body), "Thunder" in str(request.body)) == (False, False)


async def check_budget(ann: Ann, model: OpenAIStub) -> None:
    """What she has used on one platform is used on all."""
    await ann.matrix.sql(
        "UPDATE users SET token_budget_monthly = tokens_used_this_month WHERE permission_level = 'user'"
    )
    count = model.count
    assert ["budget" in refusal for refusal in await ann.asks_everywhere("and now?")] == [True] * 3
    assert model.count == count
