"""What was written while nobody listened: all of it, in order, without a rush for Discord's requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import groupby

import asyncpg
import pytest

from shared.db.database import Address
from tests.adapters.discord.conftest import Scene
from tests.standins.discord import CUT, Fault, Person
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.connections import connected

MANY = 520
FOREIGN_IDS = ("not-a-number", "99999999999999999999", "🐸", "1")
FOREIGN_ROW = """
INSERT INTO conversations (platform, platform_channel_id, is_direct) VALUES ('discord', :channel, true)
"""


@asynccontextmanager
async def stopped(scene: Scene, address: Address, model: OpenAIStub) -> AsyncIterator[None]:
    """Let the agent speak with Ann, then stop it for the block."""
    async with scene.opened(address, model):
        await scene.ann.says("hello", scene.ann.dm())
        await scene.ann.hears(scene.ann.dm())
        await scene.until_value(1, "SELECT count(*) FROM shards WHERE seen_id IS NOT NULL")
    await scene.discord.gateway.until_gone()
    yield


async def test_mentions_behind_hundreds_of_other_messages_are_found_in_order(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    world, me = scene.discord.world, scene.discord.world.bot["id"]
    async with stopped(scene, address, model):
        for number in range(MANY):
            world.keep_message(scene.general, scene.bob.user, f"entry {number}")
        for number in range(3):
            world.keep_message(scene.general, scene.ann.user, f"<@{me}> question {number}")

    async with scene.opened(address, model):
        await scene.until_value(3, "SELECT count(*) FROM inbox WHERE NOT is_direct AND status = 'answered'")

        rows = await scene.sql("SELECT content FROM inbox WHERE NOT is_direct ORDER BY id")
        assert rows == [("question 0",), ("question 1",), ("question 2",)]
        pages = scene.discord.sent("GET", f"/channels/{scene.general['id']}/messages")
        assert len(pages) == MANY // 100 + 1


async def test_each_member_is_looked_up_once_and_only_if_they_asked_something(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    world, me = scene.discord.world, scene.discord.world.bot["id"]
    role, other = world.add_role(scene.guild["id"], "Keepers"), world.add_channel(scene.guild["id"], "other")
    world.members[scene.guild["id"], scene.ann.id]["roles"] = [role["id"]]
    async with stopped(scene, address, model):
        for number in range(20):
            stranger = Person(scene.discord, f"Stranger{number}")
            stranger.joins(scene.guild)
            world.keep_message(scene.general, stranger.user, f"entry {number}")
            world.keep_message((scene.general, other)[number % 2], scene.ann.user, f"<@{me}> question {number}")

    async with scene.opened(address, model):
        await scene.until_value(20, "SELECT count(*) FROM inbox WHERE NOT is_direct AND status = 'answered'")

    assert [request.path for request in scene.discord.sent("GET", "/members/")] == [
        f"/guilds/{scene.guild['id']}/members/{scene.ann.id}"
    ]
    assert "Keepers" in str(model.requests[-1].body["messages"])


async def test_channels_that_http_callers_name_are_not_read_and_stop_nothing(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    async with stopped(scene, address, model):
        await scene.ann.says("directly", scene.ann.dm(), is_heard=False)
        await scene.ann.asks("in the channel", scene.general, is_heard=False)

    async with scene.opened(address, model, listens=False, works=False):
        for channel in (*FOREIGN_IDS, scene.general["id"]):
            await scene.sql(FOREIGN_ROW, channel=channel)
    async with scene.opened(address, model):
        await scene.until_value(3, "SELECT count(*) FROM inbox WHERE status = 'answered'")

        assert await scene.value("SELECT is_direct FROM inbox WHERE content = 'in the channel'") is False
    assert not [
        request for request in scene.discord.sent("GET", "/channels/") if request.path.split("/")[2] in FOREIGN_IDS
    ]


async def test_a_message_that_can_not_be_accepted_does_not_stop_the_others(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    async with stopped(scene, address, model):
        odd = await scene.ann.asks("odd", scene.general, is_heard=False)
        await scene.ann.asks("even", scene.general, is_heard=False)
    async with scene.opened(address, model, listens=False, works=False):
        # The event's id is in use by another person's message.
        await scene.parley.accept("mine", platform="discord", user="77", channel="http", event_id=odd["id"])

    async with scene.opened(address, model):
        await scene.until_value("answered", "SELECT status FROM inbox WHERE content = 'even'")


async def test_what_was_missed_on_a_server_that_comes_late_is_read_then(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    async with stopped(scene, address, model):
        await scene.ann.says("directly", scene.ann.dm(), is_heard=False)
        await scene.ann.asks("on the server", scene.general, is_heard=False)

    scene.discord.gateway.guilds_come.clear()
    async with scene.opened(address, model, guild_ready_timeout=0):
        await scene.ann.hears(scene.ann.dm(), 2)
        await scene.ann.says("and now?", scene.ann.dm())
        await scene.ann.hears(scene.ann.dm(), 3)
        scene.discord.gateway.guilds_come.set()

        assert await scene.ann.hears(scene.general) == ["Here."]


async def test_a_message_that_the_library_can_not_read_does_not_stop_the_others(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    async with stopped(scene, address, model):
        await scene.ann.asks("before", scene.general, is_heard=False)
        await scene.ann.asks("odd", scene.general, is_heard=False, embeds=None)
        await scene.ann.asks("behind", scene.general, is_heard=False)

    async with scene.opened(address, model):
        await scene.until_value("answered", "SELECT status FROM inbox WHERE content = 'behind'")
        assert await scene.value("SELECT count(*) FROM inbox WHERE content = 'before'") == 1


async def test_members_that_can_not_be_looked_up_keep_no_questions_waiting(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    async with stopped(scene, address, model):
        for number in range(3):
            await scene.ann.asks(f"question {number}", scene.general, is_heard=False)
            await scene.bob.asks(f"question {number}", scene.general, is_heard=False)

    scene.discord.faults.append(Fault("GET", "/members/", CUT, times=1_000_000))
    async with scene.opened(address, model):
        await scene.until_value(6, "SELECT count(*) FROM inbox WHERE NOT is_direct AND status = 'answered'")

    tried = [request.path.rpartition("/")[2] for request in scene.discord.sent("GET", "/members/")]
    # Either person was looked up once, with its repetitions, and not for each message.
    assert [person for person, _ in groupby(tried)] == [scene.ann.id, scene.bob.id]


@pytest.mark.parametrize("mark", ["9223372036854775807", "9999999999999999999", "0"])
async def test_a_mark_that_can_be_no_message_lets_everything_be_read_that_may_be(
    scene: Scene, address: Address, model: OpenAIStub, mark: str
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    async with stopped(scene, address, model):
        await scene.ann.asks("while you were away", scene.general, is_heard=False)
        async with connected(address, as_owner=False) as program:
            await program.execute("UPDATE shards SET seen_id = $1", mark)

    async with scene.opened(address, model):
        await scene.until_value(1, "SELECT count(*) FROM inbox WHERE content = 'while you were away'")
        # It is not kept.
        await scene.until_value(1, "SELECT count(*) FROM shards WHERE seen_id <> :mark", mark=mark)


async def test_a_mark_that_is_no_number_is_refused_by_the_database(address: Address) -> None:
    async with connected(address, as_owner=False) as program:
        await program.execute("INSERT INTO bots (id, platform, token_hash) VALUES (1, 'discord', 'x')")
        for mark in ("", "garbage", "-5", "NaN", "1e9", "99999999999999999999999", "١٢", "17\n"):
            with pytest.raises(asyncpg.CheckViolationError):
                await program.execute("INSERT INTO shards (bot_id, shard_id, seen_id) VALUES (1, 0, $1)", mark)
