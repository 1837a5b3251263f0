"""A bot whose servers live in two cells: a door that listens for both, and a worker with the same token in each."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from adapters.cells.moves import move_server, statements
from adapters.discord.platform import DiscordPlatform
from tests.adapters.discord.conftest import Scene
from tests.standins.openai_api import OpenAIStub
from tests.support.cells import CellDatabases, TwoCells, door_settings, open_cells
from tests.support.chat_scene import ended
from tests.support.connections import connected, until_somebody_waits

WAITS = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())
"""


@pytest.fixture
async def cells(scene: Scene, cell_databases: CellDatabases, model: OpenAIStub) -> AsyncIterator[TwoCells]:
    async with open_cells(door_settings(scene.settings), cell_databases, model, scene.build) as cells:
        listener = cells.parleys["a"].app.senders["discord"]
        assert isinstance(listener, DiscordPlatform)
        listener.cells = cells.cells
        listening = asyncio.create_task(listener.listen(cells.parleys["a"].app))
        try:
            await scene.discord.gateway.until()
            yield cells
        finally:
            await ended(listening)


async def move(cells: TwoCells, scene: Scene, source: str = "a", target: str = "b") -> None:
    async with cells.moving(source, target, scene.guild["id"], platform="discord") as moving:
        await move_server(moving, lambda _line: None, seconds=60)


async def test_a_guild_is_served_by_its_cell_and_moves_with_its_settings(cells: TwoCells, scene: Scene) -> None:
    await cells.parleys["a"].sql(
        "INSERT INTO channel_modes (platform_server_id, mode) VALUES (:server, 'always')", server=scene.guild["id"]
    )
    first = await scene.ann.says("first", scene.general)
    await scene.ann.hears(scene.general)
    await scene.ann.says("alone", scene.ann.dm())
    await scene.ann.hears(scene.ann.dm())

    written = [asyncio.create_task(scene.bob.says(f"during {number}", scene.general)) for number in range(4)]
    await move(cells, scene)
    await asyncio.gather(*written)
    # No mention is needed there either.
    await scene.bob.says("after", scene.general)
    await cells.until("b", "SELECT count(*) = 6 FROM inbox WHERE status = 'answered'")
    await cells.until("b", "SELECT bool_and(status = 'delivered') FROM outbox")

    heard = "\n".join(await scene.ann.hears(scene.general, 2))
    for text in ("first", *(f"during {number}" for number in range(4)), "after"):
        assert heard.count(text) == 1
    assert await cells.count("a") == 1
    await scene.discord.until(lambda: scene.discord.commands)
    assert "tokens" in await (await scene.bob.types("budget", scene.general)).answered()
    await cells.until("b", "SELECT count(*) = 7 FROM inbox")

    await scene.ann.edits(first, "second")
    await cells.until("b", "SELECT count(*) = 1 FROM inbox WHERE content = 'second'")
    await scene.ann.deletes(first)
    await cells.until("b", "SELECT count(*) = 0 FROM inbox WHERE content = 'second'")


async def test_on_the_way_a_command_is_put_off_and_a_message_waits(cells: TwoCells, scene: Scene) -> None:
    await scene.discord.until(lambda: scene.discord.commands)
    # Where the server comes from, no mention is needed.
    await cells.parleys["a"].sql(
        "INSERT INTO channel_modes (platform_server_id, mode) VALUES (:server, 'always')", server=scene.guild["id"]
    )
    async with cells.moving("a", "b", scene.guild["id"], platform="discord") as moving:
        await moving.fetch(moving.target, statements.begin_arrival, "a")
        await moving.fetch(moving.source, statements.begin_departure, "b")
        await cells.until_routed("discord", scene.guild["id"], "a", "b")
        interaction = await scene.ann.types("budget", scene.general)
        assert "is being moved" in await interaction.answered()
        await scene.ann.says("hello", scene.general)
        await cells.until("b", "SELECT count(*) = 1 FROM inbox WHERE status = 'waiting'")
        await move_server(moving, lambda _line: None, seconds=60)
    assert len(await scene.ann.hears(scene.general)) == 1
    assert await cells.count("a") == 0


async def test_while_a_move_is_cancelled_a_message_is_read_by_the_settings_of_where_the_server_stays(
    cells: TwoCells, scene: Scene
) -> None:
    # No mention is needed.
    await cells.parleys["a"].sql(
        "INSERT INTO channel_modes (platform_server_id, mode) VALUES (:server, 'always')", server=scene.guild["id"]
    )
    async with cells.moving("a", "b", scene.guild["id"], platform="discord") as moving:
        await moving.fetch(moving.target, statements.begin_arrival, "a")
        await moving.fetch(moving.source, statements.begin_departure, "b")
    async with cells.moving("b", "a", scene.guild["id"], platform="discord") as moving:
        await moving.fetch(moving.source, statements.begin_departure, "a")
        await moving.fetch(moving.target, statements.begin_arrival, "b")
        await cells.until_routed("discord", scene.guild["id"], "b", "a")
        await scene.ann.says("hello", scene.general)
        await cells.until("a", "SELECT count(*) = 1 FROM inbox WHERE status = 'waiting'")
        await move_server(moving, lambda _line: None, seconds=60)
    assert len(await scene.ann.hears(scene.general)) == 1
    assert await cells.count("b") == 0


async def test_what_is_deleted_while_its_row_moves_is_in_neither_cell(cells: TwoCells, scene: Scene) -> None:
    await cells.parleys["a"].sql(
        "INSERT INTO channel_modes (platform_server_id, mode) VALUES (:server, 'always')", server=scene.guild["id"]
    )
    message = await scene.ann.says("my number is 4711", scene.general)
    await scene.ann.hears(scene.general)
    await cells.until("a", "SELECT count(*) = 1 FROM inbox WHERE status = 'answered'")
    async with connected(cells.addresses["b"]) as holder, holder.transaction():
        # The last step of a move waits for it: the rows are deleted in one cell, and not to be seen in the other one.
        await holder.execute("LOCK TABLE inbox IN ROW EXCLUSIVE MODE")
        moving = asyncio.create_task(move(cells, scene))
        await until_somebody_waits(holder)
        await scene.ann.deletes(message)
        await cells.until("a", WAITS)
    await moving
    await cells.until("b", "SELECT count(*) = 0 FROM inbox WHERE content LIKE '%4711%'")


async def test_a_door_that_has_not_heard_of_a_move_loses_no_message(cells: TwoCells, scene: Scene) -> None:
    # No mention is needed.
    await cells.parleys["a"].sql(
        "INSERT INTO channel_modes (platform_server_id, mode) VALUES (:server, 'always')", server=scene.guild["id"]
    )
    for cell in "ab":
        await cells.sql(cell, "ALTER TABLE cell_servers DISABLE TRIGGER parley_announce_change")
    await move(cells, scene)
    assert cells.cells.find("discord", scene.guild["id"]) == ("a",)
    await scene.ann.says("hello", scene.general)
    assert len(await scene.ann.hears(scene.general)) == 1
    assert await cells.count("b") == 1


async def test_a_click_finds_a_server_that_has_moved_unheard(cells: TwoCells, scene: Scene) -> None:
    await scene.ann.asks("over here", scene.general)
    await scene.ann.hears(scene.general)
    await cells.until("a", "SELECT count(*) = 1 FROM inbox WHERE status = 'answered'")
    for cell in "ab":
        await cells.sql(cell, "ALTER TABLE cell_servers DISABLE TRIGGER parley_announce_change")
    await move(cells, scene)
    assert cells.cells.find("discord", scene.guild["id"]) == ("a",)
    await (await scene.ann.clicks(scene.ann.reads(scene.general)[0], "🔄")).acked()
    await cells.until("b", "SELECT count(*) = 2 FROM inbox WHERE status = 'answered'")
    assert await cells.count("a") == 0


async def test_a_cell_that_is_away_keeps_no_other_server_waiting_and_is_caught_up_with_when_it_is_back(
    scene: Scene, cell_databases: CellDatabases, model: OpenAIStub
) -> None:
    other = scene.discord.world.add_guild("Lake", scene.bob.user)
    pier = scene.discord.world.add_channel(other["id"], "pier")
    # As many as are read at once.
    channels = [scene.discord.world.add_channel(scene.guild["id"], f"channel-{number}") for number in range(4)]
    async with open_cells(door_settings(scene.settings), cell_databases, model, scene.build) as cells:
        listener = cells.parleys["a"].app.senders["discord"]
        assert isinstance(listener, DiscordPlatform)
        listener.cells = cells.cells
        listening = asyncio.create_task(listener.listen(cells.parleys["a"].app))
        await scene.discord.gateway.until()
        await cells.until("a", "SELECT EXISTS (SELECT FROM shards WHERE seen_id IS NOT NULL)")
        await move(cells, scene)
        await cells.until_routed("discord", scene.guild["id"], "b")
        await ended(listening)
        await scene.discord.gateway.until_gone()
        for channel in channels:
            await scene.ann.asks("missed", channel, is_heard=False)
        await scene.bob.asks("at home", pier, is_heard=False)
        away = cells.cells.apps.pop("b")

        listening = asyncio.create_task(listener.listen(cells.parleys["a"].app))
        try:
            await scene.bob.hears(pier)
            await scene.ann.asks("live", channels[0])
            await cells.cells.add("b", away)
            await cells.until("b", "SELECT count(*) = 5 FROM inbox WHERE status = 'answered'")
            for channel in channels:
                await scene.ann.hears(channel)
        finally:
            await ended(listening)
