"""What could not be stored, or came too late for its session, is read from the history, and not only after a start."""

import asyncio

import asyncpg
import pytest

from shared.db.database import Address
from tests.adapters.discord.conftest import Scene
from tests.adapters.web.conftest import say_it_back
from tests.standins.discord import Fault
from tests.standins.openai_api import OpenAIStub
from tests.support.eventually import PATIENCE
from tests.test_database_faults import full_disk


async def until_put_off(capsys: pytest.CaptureFixture[str], count: int) -> None:
    """Return once so many messages could not be stored."""
    printed = ""
    async with asyncio.timeout(PATIENCE):
        while printed.count("discord_server_waits") < count:
            printed += capsys.readouterr().out
            await asyncio.sleep(0.02)


async def until_refused(owner: asyncpg.Connection, count: int) -> None:
    """Return once the database has refused so many statements."""
    async with asyncio.timeout(PATIENCE):
        while await owner.fetchval("SELECT last_value FROM refused") < count:  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0.02)


async def test_the_only_message_that_the_database_refused_for_long_is_answered_when_it_is_back(
    scene: Scene, address: Address, model: OpenAIStub, capsys: pytest.CaptureFixture[str]
) -> None:
    model.play(say_it_back)
    async with scene.opened(address, model, store_seconds=1.0):
        await scene.ann.says("hello", scene.ann.dm())
        await scene.ann.hears(scene.ann.dm())
        async with full_disk(scene.parley.app.database):
            await scene.ann.asks("at the pier", scene.general)
            await scene.ann.says("directly", scene.ann.dm())
            await until_put_off(capsys, 2)
        assert (await scene.ann.hears(scene.general))[0].endswith("at the pier")
        assert (await scene.ann.hears(scene.ann.dm(), 2))[1].endswith("directly")
        assert await scene.value("SELECT count(*) FROM inbox") == 3


async def test_a_history_of_no_form_is_read_again(scene: Scene, address: Address, model: OpenAIStub) -> None:
    model.play(say_it_back)
    async with scene.opened(address, model):
        await scene.ann.says("hello", scene.ann.dm())
        await scene.ann.hears(scene.ann.dm())
        await scene.until_value(1, "SELECT count(*) FROM shards WHERE seen_id IS NOT NULL")
    await scene.discord.gateway.until_gone()
    await scene.ann.asks("at the pier", scene.general, is_heard=False)
    # An object instead of a list.
    scene.discord.faults.append(Fault("GET", f"/channels/{scene.general['id']}/messages", 200))
    async with scene.opened(address, model):
        assert (await scene.ann.hears(scene.general))[0].endswith("at the pier")


async def test_an_edit_and_a_deletion_that_the_database_refused_for_long_are_applied_when_it_is_back(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play(say_it_back)
    async with scene.opened(address, model, store_seconds=0.0):
        edited, deleted = await scene.ann.asks("boats", scene.general), await scene.ann.asks("4711", scene.general)
        await scene.until_value(2, "SELECT count(*) FROM inbox WHERE status = 'answered'")
        async with full_disk(scene.parley.app.database) as owner:
            await scene.ann.edits(edited, "bikes")
            await scene.ann.edits(edited, "bikes and boats")
            await scene.ann.deletes(deleted)
            await until_refused(owner, 8)
        await scene.until_value(1, "SELECT count(*) FROM inbox WHERE content = 'bikes and boats'")
        await scene.until_value(0, "SELECT count(*) FROM inbox WHERE content LIKE '%4711%'")
