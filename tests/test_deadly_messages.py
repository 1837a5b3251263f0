"""A message that kills its process, or blocks it for ever, is parked; messages that ran beside it are answered."""

import asyncio
from pathlib import Path

import pytest

from agent.prompts import prompts
from agent.queue.suspects import MAX_DEATHS
from tests.crash.stage import open_stage
from tests.support.databases import Databases

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(300)]

INNOCENT = 6
SLOW = [{"content": "It is done.", "delay": 0.3}]


@pytest.mark.parametrize("kind", ["deadly", "blocking"])
async def test_a_message_that_ends_its_process_is_tried_alone_and_the_others_are_answered(
    stages: Databases, tmp_path: Path, kind: str
) -> None:
    order = {kind: "deadly:"}
    async with open_stage(stages, tmp_path) as stage:
        first = await stage.worker("first", [{"content": "never", "delay": 60}], **order)
        innocent = [await stage.accepts(f"room-{number}: hello", channel=f"room-{number}") for number in range(3)]
        deadly = await stage.accepts("deadly: hello", channel="deadly")
        innocent += [await stage.accepts(f"room-{number}: hello", channel=f"room-{number}") for number in range(3, 6)]
        await first.until_gone()
        await stage.age_the_dead()
        parked = asyncio.create_task(stage.answer(deadly))
        # A death counts only if it is certain which message caused it, so that there may be one more.
        for number in range(MAX_DEATHS + 2):
            last = await stage.worker(f"worker-{number}", SLOW, **order)
            task = asyncio.create_task(last.until_gone())
            await asyncio.wait({parked, task}, return_when=asyncio.FIRST_COMPLETED)
            if parked.done():
                task.cancel()
                break
            await stage.age_the_dead()

        assert number >= MAX_DEATHS
        response = await parked
        assert (response.error, response.content) == ("parked", prompts().turn.parked)
        assert [(await stage.response(inbox_id)).content for inbox_id in innocent] == ["It is done."] * INNOCENT
        later = await stage.response(await stage.accepts("deadly-not: hello", channel="deadly"))
        assert later.content == "It is done."
        await stage.until_delivered(INNOCENT + 2)
        await last.stop()
        assert await stage.rows("SELECT count(*) FROM stage_posts") == [(INNOCENT + 2,)]
        if kind == "blocking":
            logged = (stage.home / "first.log").read_text()
            assert "event_loop_blocked" in logged
            assert "blocked_process_ended" in logged
            assert "in stand_still" in logged


async def test_a_message_that_kills_its_process_before_its_turn_begins_is_parked_too(
    stages: Databases, tmp_path: Path
) -> None:
    async with open_stage(stages, tmp_path) as stage:
        deadly = await stage.accepts("room: hello")
        for number in range(MAX_DEATHS + 2):
            # The first commit of a suspect records that it starts alone.
            point = "commit before 2" if number else "commit before 1"
            worker = await stage.worker(f"worker-{number}", at=point, action="kill")
            await worker.until_gone()
            await stage.age_the_dead()
        await stage.worker("last", ["It is done."])

        assert (await stage.response(deadly)).error == "parked"
        assert (await stage.response(await stage.accepts("room: and now?"))).content == "It is done."
