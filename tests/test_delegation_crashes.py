"""A worker is killed, frozen or stopped while an agent works: the agent resumes and does nothing twice."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.promises import Check, broken_at_each, every_turn, find_broken, list_deaths, rows_are
from tests.crash.stage import Stage, open_stage, run_with_fault
from tests.support.databases import Databases

ANSWERS: list[Any] = [
    '```delegate\n{"agent": "scout", "task": "below: look around"}\n```',
    {"tool_calls": [{"name": "stage__read"}, {"name": "stage__effect"}]},
    "Found.",
    "It is done.",
]
ABOVE = [("user", None), ("assistant", None), ("tool_call", "agents.delegate"), ("tool_result", "agents.delegate")]
BELOW = [
    ("user", None), ("assistant", None), ("tool_call", "stage.read"), ("tool_call", "stage.effect"),
    ("tool_result", "stage.read"), ("tool_result", "stage.effect"), ("assistant", None),
]  # fmt: skip
pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(300)]


async def add_scout(stage: Stage) -> None:
    await stage.owner.execute("INSERT INTO personas (name, system_prompt) VALUES ('scout', 'You are the scout.')")
    await stage.owner.execute("INSERT INTO agents (name, description, persona_id) VALUES ('scout', 'Looks around.', 1)")


async def until_rows(stage: Stage, query: str, *rows: tuple[Any, ...]) -> None:
    """Wait until a query returns these rows."""
    async with asyncio.timeout(30):
        while True:
            if await stage.rows(query) == list(rows):
                break
            await asyncio.sleep(0.05)


async def list_points(stages: Databases, home: Path) -> list[str]:
    """Run the turn once without a fault; return the points from the agent's call to the step after its result."""
    async with open_stage(stages, home) as stage:
        await add_scout(stage)
        worker = await stage.worker("first", ANSWERS)
        await stage.response(await stage.accepts("room: look around"))
        await stage.until_delivered(1)
        await worker.stop()
        assert await find_faults(stage, replies=1) == []
        return worker.points[worker.points.index("model after 1") : worker.points.index("model after 4")]


async def play(stages: Databases, home: Path, point: str, action: str) -> list[str]:
    """Run the turn with a worker killed or frozen at a point, then with a second one; return the broken promises.

    With the action `failover` the worker is frozen while the database is failed over.
    """
    is_failed_over = action == "failover"
    async with open_stage(stages, home) as stage:
        await add_scout(stage)
        first = await stage.worker("first", ANSWERS, at=point, action="freeze" if is_failed_over else action)
        inbox_id = await stage.accepts("room: look around")
        late = await run_with_fault(stage, first, ANSWERS, inbox_id, is_failed_over=is_failed_over)
        return [f"{action} at {point}: {fault}" for fault in late + await find_faults(stage, replies=2)]


async def find_faults(stage: Stage, replies: int) -> list[str]:
    """Return every broken promise."""
    return await find_broken(stage, [*every_turn(), *_transcripts(), *_ends(replies)])


def _transcripts() -> Iterator[Check]:
    steps = "SELECT role, tool_name FROM messages JOIN turns ON turns.id = turn_id WHERE {} ORDER BY seq"
    yield "asker", steps.format("turn_id = 1"), rows_are(*ABOVE, ("assistant", None))
    yield "agent", steps.format("parent_turn_id = 1"), rows_are(*BELOW)
    hidden = "SELECT 1 FROM messages JOIN turns ON turns.id = turn_id"
    yield "shown", f"{hidden} WHERE (agent IS NULL) = (messages.conversation_id IS NULL)", rows_are()  # our own
    result = "SELECT content FROM messages WHERE turn_id = 1 AND role = 'tool_result'"
    answer = {"result": "Found.", "agent": "scout", "iterations": 2}
    yield "result", result, lambda rows: [json.loads(row[0]) for row in rows] == [answer]
    announced = "SELECT name FROM turn_events WHERE turn_id = 1 AND name LIKE 'delegation%' ORDER BY seq"
    yield "announced", announced, rows_are(("delegation_request",), ("delegation_response",))
    purposes = "SELECT DISTINCT agent IS NOT NULL, purpose FROM token_logs JOIN turns ON turns.id = turn_id ORDER BY 1"
    yield "purposes", purposes, rows_are((False, "answer"), (True, "delegation"))


def _ends(replies: int) -> Iterator[Check]:
    yield "posts", "SELECT content FROM stage_posts", rows_are(*[("It is done.",)] * replies)
    yield "turns", "SELECT status, count(*) FROM turns GROUP BY 1", rows_are(("answered", replies + 1))


@pytest.mark.parametrize("action", ["kill", "freeze", "failover"])
async def test_a_worker_may_be_killed_or_frozen_or_lose_its_database_at_every_point_of_an_agents_work(
    stages: Databases, tmp_path: Path, action: str
) -> None:
    points = await list_points(stages, tmp_path)
    assert len(points) > 20
    points = list_deaths(points)
    if action != "kill":
        # test_crashes.py tests the fencing of every write; these points concern a turn within a turn.
        points = points[::2]

    async def one(point: str) -> list[str]:
        return await play(stages, tmp_path, point, action)

    assert await broken_at_each(points, one) == []


async def test_a_stopping_worker_hands_over_the_agent_with_its_asker(stages: Databases, tmp_path: Path) -> None:
    async with open_stage(stages, tmp_path) as stage:
        await add_scout(stage)
        first = await stage.worker("first", ANSWERS, grace=0.2, at="model before 3", action="hold")
        inbox_id = await stage.accepts("room: look around")
        await first.until("model before 3")
        await first.stop()
        statuses = await stage.rows("SELECT status FROM turns ORDER BY id")
        reservation = await stage.rows("SELECT tokens_reserved FROM users")
        reservations = await stage.rows("SELECT * FROM budget_reservations")
        second = await stage.worker("second", ANSWERS)

        assert (statuses, reservation, reservations) == ([("running",), ("running",)], [(0,)], [])
        assert (await stage.response(inbox_id)).content == "It is done."
        await stage.until_delivered(1)
        await second.stop()
        assert await stage.rows("SELECT attempt, error FROM turns ORDER BY id") == [(2, None), (2, None)]
        assert await find_faults(stage, replies=1) == []


async def test_agents_end_with_an_asker_that_is_parked(stages: Databases, tmp_path: Path) -> None:
    async with open_stage(stages, tmp_path) as stage:
        await add_scout(stage)
        inbox_id = await stage.accepts("room: a deadly one")
        for number, point in enumerate(("model before 2", *["model before 1"] * 3)):
            worker = await stage.worker(f"worker-{number}", ANSWERS, at=point, action="kill")
            await worker.until_gone()
            await stage.age_the_dead()
        last = await stage.worker("last", ANSWERS)

        assert (await stage.response(inbox_id)).error == "parked"
        await until_rows(stage, "SELECT status, error FROM turns WHERE agent = 'scout'", ("cancelled", "orphaned"))
        await last.stop()
        assert await stage.rows("SELECT tokens_reserved FROM users") == [(0,)]
