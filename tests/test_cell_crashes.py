"""Whoever moves a server dies at any step, and the next one goes on: nothing is lost, nothing is answered twice."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from adapters.cells.moves import StillOpen, move_server
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.cells import CellDatabases, TwoCells, door_settings, open_cells
from tests.support.killed_moves import POINTS, Point, between_the_commits, killed_at, start_mover, stopped_by


@pytest.fixture
async def cells(settings: Settings, cell_databases: CellDatabases, model: OpenAIStub) -> AsyncIterator[TwoCells]:
    async with open_cells(door_settings(settings), cell_databases, model) as cells:
        yield cells


@pytest.mark.parametrize(("cell", "point"), POINTS, ids=lambda value: getattr(value, "__name__", value))
async def test_a_move_that_was_killed_is_ended_by_the_next_one(
    cells: TwoCells, cell: str, point: Point, tmp_path: Path
) -> None:
    assert await cells.ask("before", "before") == "You said: ann: before"
    await cells.until_remembered("a")

    async with killed_at(cells, tmp_path, (cell, point)):
        pass
    # Whoever comes now is served, or waits for the end of the move; an event that comes again is no second one.
    waiting = [
        asyncio.create_task(cells.ask(event_id, event_id, platform_channel_id=channel))
        for event_id, channel in (
            ("before", "general"),
            ("meanwhile", "general"),
            ("meanwhile", "general"),
            ("later", "b"),
        )
    ]
    for event_id in ("meanwhile", "later"):
        await cells.until_stored(event_id)
    mover = await start_mover(cells, tmp_path)
    out, err = await mover.communicate()
    assert mover.returncode == 0, err.decode()
    assert "lives in b now" in out.decode()

    said = ["before", "meanwhile", "meanwhile", "later"]
    assert await asyncio.gather(*waiting) == [f"You said: ann: {text}" for text in said]
    assert len(cells.parleys["a"].model.requests) == 3
    assert await cells.count("a") == await cells.count("a", "turns") == await cells.count("a", "conversations") == 0
    assert [tuple(row) for row in await cells.sql("b", "SELECT status, count(*) FROM inbox GROUP BY 1")] == [
        ("answered", 3)
    ]
    assert await cells.count("b", "turns") == 3


async def test_a_move_that_was_killed_while_a_turn_ran_is_ended_by_the_next_one(
    cells: TwoCells, tmp_path: Path
) -> None:
    slow, may_end = await cells.begin_slow_turn()
    mover = await start_mover(cells, tmp_path)
    late = asyncio.create_task(cells.ask("late", "late"))
    await cells.until("a", "SELECT EXISTS (SELECT FROM cell_servers WHERE state = 'leaving')")
    mover.send_signal(signal.SIGKILL)
    await mover.wait()
    may_end.set()
    assert await slow == "You said: ann: slow"

    mover = await start_mover(cells, tmp_path)
    await mover.communicate()
    assert mover.returncode == 0
    assert await late == "You said: ann: late"
    assert len(cells.parleys["a"].model.requests) == 2
    assert await cells.count("a") == 0


def before_it_goes_back(cells: TwoCells) -> AbstractAsyncContextManager[int]:
    return stopped_by(cells, "b", "LOCK TABLE cell_servers IN SHARE MODE")


def before_its_home_takes_it(cells: TwoCells) -> AbstractAsyncContextManager[int]:
    return stopped_by(cells, "a", "LOCK TABLE cell_servers IN SHARE MODE")


def while_what_waits_is_copied(cells: TwoCells) -> AbstractAsyncContextManager[int]:
    return stopped_by(cells, "a", "LOCK TABLE inbox IN SHARE MODE")


def between_the_commits_of_the_way_back(cells: TwoCells) -> AbstractAsyncContextManager[int]:
    return between_the_commits(cells, "b")


CANCELLATIONS: tuple[tuple[str, Point], ...] = (
    ("b", before_it_goes_back),
    ("a", before_its_home_takes_it),
    ("a", while_what_waits_is_copied),
    ("b", between_the_commits_of_the_way_back),
)


@pytest.mark.parametrize(("cell", "point"), CANCELLATIONS, ids=lambda value: getattr(value, "__name__", value))
async def test_a_cancellation_that_was_killed_is_ended_by_the_next_one(
    cells: TwoCells, cell: str, point: Point, tmp_path: Path
) -> None:
    slow, may_end = await cells.begin_slow_turn()
    async with cells.moving() as move:
        with pytest.raises(StillOpen):
            await move_server(move, lambda _line: None, seconds=0)
    early = asyncio.create_task(cells.ask("early", "early"))
    await cells.until("b", "SELECT EXISTS (SELECT FROM inbox)")
    may_end.set()
    assert await slow == "You said: ann: slow"

    async with killed_at(cells, tmp_path, (cell, point), "a"):
        pass
    mover = await start_mover(cells, tmp_path, "a")
    out, err = await mover.communicate()
    assert mover.returncode == 0, err.decode()
    assert "lives in a now" in out.decode()

    assert await early == "You said: ann: early"
    assert await cells.ask("late", "late") == "You said: ann: late"
    assert await cells.count("b") == 0
    assert await cells.count("a") == await cells.count("a", "turns") == 3
    assert len(cells.parleys["a"].model.requests) == 3


async def test_a_cancelled_move_can_be_begun_again(cells: TwoCells) -> None:
    slow, may_end = await cells.begin_slow_turn()
    async with cells.moving() as move:
        with pytest.raises(StillOpen):
            await move_server(move, lambda _line: None, seconds=0)
    # Nobody told the event's name: it keeps one of its own, and is answered once.
    waiting = asyncio.create_task(cells.ask("", "waits", platform_event_id=None))
    await cells.until("b", "SELECT EXISTS (SELECT FROM inbox)")

    assert "lives in a now: 1 rows" in (await cells.move("b", "a"))[-1]
    # Behind the turn that runs.
    may_end.set()
    assert await slow == "You said: ann: slow"
    assert await waiting == "You said: ann: waits"
    assert "lives in b now" in (await cells.move())[-1]
    assert await cells.ask("after", "after") == "You said: ann: after"
    assert await cells.count("b", "turns") == 3
