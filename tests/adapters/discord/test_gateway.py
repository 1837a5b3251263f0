"""The connection: interruptions, nonsense, revoked tokens, what was missed, and who holds which shard."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from adapters.discord.platform import DiscordPlatform
from shared.db.database import Address
from tests.adapters.discord.conftest import Scene
from tests.standins.discord import Json
from tests.standins.discord.world import snowflake
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.chat_scene import ended
from tests.support.eventually import PATIENCE, eventually


@pytest.mark.parametrize("payload", [{"op": 7, "d": None}, {"op": 9, "d": True}], ids=["reconnect", "invalid-session"])
async def test_a_session_that_can_be_resumed_goes_on_and_nothing_is_missed(server: Scene, payload: Json) -> None:
    server.model.play([Answer("Still here.")])

    await server.discord.gateway.send_all(payload)
    await server.discord.gateway.until_gone()
    await server.ann.says("are you back?", server.ann.dm())

    assert await server.ann.hears(server.ann.dm()) == ["Still here."]
    assert (len(server.discord.gateway.identifies), server.discord.gateway.resumes) == (1, 1)


async def test_what_was_written_while_a_session_was_invalid_is_caught_up_with(server: Scene) -> None:
    server.model.play([Answer("First."), Answer("Second.")])
    await server.ann.asks("before", server.general)
    await server.ann.hears(server.general)

    await server.discord.gateway.send_all({"op": 9, "d": False})
    await server.ann.asks("meanwhile", server.general, is_heard=False)

    assert await server.ann.hears(server.general, 2) == ["First.", "Second."]
    assert len(server.discord.gateway.identifies) == 2


async def test_a_token_that_is_revoked_while_connected_keeps_the_process_up_and_says_so(
    server: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    server.discord.gateway.worlds.clear()
    await server.discord.gateway.drop_all(4004)
    await server.discord.gateway.until_gone()

    result = ""
    async with asyncio.timeout(PATIENCE):
        while "platform_refuses" not in result:
            await asyncio.sleep(0.02)
            result += capsys.readouterr().out
    assert "make a new one in the developer portal and set DISCORD_TOKEN" in result
    assert len(server.discord.gateway.identifies) == 1
    # What was waiting is answered all the same: workers send without a gateway, once the token is a good one.
    server.model.play([Answer("I still send.")])
    await server.parley.accept(
        "hello", adapter="discord", platform="discord", user=server.ann.id, channel=server.ann.dm()["id"]
    )
    assert await server.ann.hears(server.ann.dm()) == ["I still send."]


async def test_a_missed_heartbeat_ends_the_connection_and_it_comes_back(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    scene.discord.gateway.heartbeat_seconds = 0.3
    model.play([Answer("Back.")])
    async with scene.opened(address, model, heartbeat_timeout=1.0):
        scene.discord.gateway.acks = False
        await scene.discord.gateway.until_gone()
        scene.discord.gateway.acks = True
        await scene.discord.gateway.until()
        await scene.ann.says("hello", scene.ann.dm())
        assert await scene.ann.hears(scene.ann.dm()) == ["Back."]


async def test_an_event_that_makes_no_sense_ends_the_client_and_not_the_process(server: Scene) -> None:
    server.model.play([Answer("First."), Answer("Second.")])
    await server.ann.asks("before", server.general)
    await server.ann.hears(server.general)

    await server.discord.gateway.dispatch("MESSAGE_CREATE", {"id": "nonsense"}, None)
    await server.discord.gateway.until_gone()
    await server.ann.asks("while it restarts", server.general, is_heard=False)

    assert await server.ann.hears(server.general, 2) == ["First.", "Second."]
    assert len(server.discord.gateway.identifies) == 2


async def test_a_token_that_is_refused_keeps_the_process_up(scene: Scene, address: Address, model: OpenAIStub) -> None:
    scene.own = replace(scene.own, token=SecretStr("revoked"))
    platform = DiscordPlatform(scene.own)
    async with scene.opened(address, model, listens=False):
        listening = asyncio.create_task(platform.listen(scene.parley.app))
        await scene.discord.until(lambda: [request for request in scene.discord.journal if request.status == 401])
        tasks, _ = await asyncio.wait([listening], timeout=0.3)
        assert not tasks
        await ended(listening)
    assert len(scene.discord.sent("GET", "/users/@me")) == 1
    assert scene.discord.gateway.identifies == []


async def test_without_the_intent_it_logs_the_remedy_and_retries_slowly(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    scene.discord.world.application_flags = 0
    platform = DiscordPlatform(scene.own)
    async with scene.opened(address, model, listens=False):
        listening = asyncio.create_task(platform.listen(scene.parley.app))
        while not scene.discord.gateway.identifies:  # noqa: ASYNC110  # the stand-in tells nobody of a refusal
            await asyncio.sleep(0.02)
        await asyncio.wait([listening], timeout=1.5)
        await ended(listening)
    assert len(scene.discord.gateway.identifies) == 1


async def test_a_stop_waits_for_a_message_that_is_being_stored(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    platform = DiscordPlatform(scene.own)
    async with scene.opened(address, model, listens=False, works=False):
        listening = asyncio.create_task(platform.listen(scene.parley.app))
        await scene.discord.gateway.until()
        async with scene.parley.app.database.transaction() as session:
            await session.execute(text("LOCK TABLE inbox IN EXCLUSIVE MODE"))
            await scene.ann.says("hello", scene.ann.dm())
            await scene.until_value(True, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
            listening.cancel()
            await scene.discord.gateway.until_gone()
            tasks, _ = await asyncio.wait([listening], timeout=0.3)
            assert not tasks
        await asyncio.gather(listening, return_exceptions=True)
        assert await scene.sql("SELECT content FROM inbox") == [("hello",)]


async def test_messages_older_than_the_catch_up_limit_are_not_answered(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    scene.settings = scene.settings.model_copy(update={"catch_up_hours": 1.0})
    async with scene.opened(address, model):
        model.play([Answer("Hello.")])
        await scene.ann.asks("hello", scene.general)
        await scene.ann.hears(scene.general)
    await scene.discord.gateway.until_gone()
    async with scene.opened(address, model, listens=False, works=False):
        old = snowflake((datetime.now(UTC) - timedelta(hours=3)).timestamp())
        await scene.sql("UPDATE shards SET seen_id = :old", old=old)
    stale = snowflake((datetime.now(UTC) - timedelta(hours=2)).timestamp())
    await scene.ann.asks("two hours ago", scene.general, is_heard=False, id=stale)
    await scene.ann.asks("just now", scene.general, is_heard=False)

    async with scene.opened(address, model):
        await scene.ann.hears(scene.general, 2)
        assert await scene.sql("SELECT content FROM inbox ORDER BY id") == [("hello",), ("just now",)]


async def test_the_first_start_ever_answers_nothing_of_the_past(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    await scene.ann.asks("years ago", scene.general, is_heard=False)
    model.play([Answer("Now.")])
    async with scene.opened(address, model):
        await scene.ann.asks("today", scene.general)
        assert await scene.ann.hears(scene.general) == ["Now."]
        assert await scene.sql("SELECT content FROM inbox") == [("today",)]


async def test_a_shard_has_one_holder_and_another_takes_over(scene: Scene, address: Address, model: OpenAIStub) -> None:
    async def is_one() -> bool:
        return len(scene.discord.gateway.connected()) == 1

    model.play([Answer("First."), Answer("Second.")])
    async with scene.opened(address, model):
        second = DiscordPlatform(scene.own)
        standby = asyncio.create_task(second.listen(scene.parley.app))
        await scene.ann.says("hello", scene.ann.dm())
        await scene.ann.hears(scene.ann.dm())
        assert len(scene.discord.gateway.identifies) == 1

        # The holder is frozen, and its lease runs out.
        await scene.sql("UPDATE shards SET holder = 'gone'")
        await scene.until_value(True, "SELECT holder <> 'gone' FROM shards")
        await scene.ann.says("and now?", scene.ann.dm())
        assert await scene.ann.hears(scene.ann.dm(), 2) == ["First.", "Second."]
        # The one before hears of it as it renews its lease.
        await eventually(is_one)
        await ended(standby)


async def test_processes_share_the_shards_by_their_ranges(scene: Scene, address: Address, model: OpenAIStub) -> None:
    model.play([Answer("In one."), Answer("In the other.")])
    # The next millisecond's id belongs to the other shard.
    other = scene.discord.world.add_guild("The Lake", scene.ann.user, str(int(scene.guild["id"]) + (1 << 22)))
    channel = scene.discord.world.add_channel(other["id"], "other")
    platform = DiscordPlatform(replace(scene.own, shard_count=2, shard_ids="1"))
    scene.own = replace(scene.own, shard_count=2, shard_ids="0")
    async with scene.opened(address, model):
        listening = asyncio.create_task(platform.listen(scene.parley.app))
        await scene.discord.gateway.until(2)
        await scene.ann.asks("here?", scene.general)
        assert await scene.ann.hears(scene.general) == ["In one."]
        await scene.ann.asks("and there?", channel)
        assert await scene.ann.hears(channel) == ["In the other."]
        await ended(listening)
    # Of two that begin at once Discord refuses one, which begins again.
    assert {tuple(identify["shard"]) for identify in scene.discord.gateway.identifies} == {(0, 2), (1, 2)}
