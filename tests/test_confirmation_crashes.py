"""A worker is killed or frozen while a person is asked, or while a confirmed call runs."""

import signal
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from shared.db.database import Address
from shared.db.hosts import URL
from shared.messages import AgentResponse, Decision
from tests.crash.promises import broken_at_each, list_deaths
from tests.crash.stage import Stage, open_copy, open_stage, open_stage_on
from tests.support.databases import Databases

ASKS: list[Any] = [{"tool_calls": [{"name": "stage__careful"}]}, "It is done."]
CALLS = [{"name": "stage__careful", "arguments": {"what": what}} for what in ("this", "that")]
ASKS_TWICE: list[Any] = [{"tool_calls": CALLS}, "It is done."]
GOES_ON: list[Any] = ["It is done."]
QUESTION = "Shall I?\n\n(Answer yes or no within ten minutes.)"
# This commit consumes the confirmation, just before the call begins.
RUNS = "effect before 1"

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(300)]


async def ask(stage: Stage) -> Decision:
    """Let a worker ask about two calls and end the worker; return the yes."""
    worker = await stage.worker("asker", ASKS_TWICE)
    question = await stage.response(await stage.accepts("room: do it"))
    await stage.until_delivered(1)
    await worker.stop()
    assert question.confirmation is not None
    return Decision(question.confirmation.id, approved=True)


async def list_points(
    scene: AbstractAsyncContextManager[Stage], answers: list[Any], decision: Decision | None = None
) -> list[str]:
    """Run the asking or the confirmed turn without a fault; return every point that it passes."""
    async with scene as stage:
        worker = await stage.worker("first", answers)
        await stage.accepts("room: do it", decision=decision)
        await stage.until_delivered(1 if decision is None else 2)
        await worker.stop()
        return [point for point in worker.points if point != "ready"]


async def disturb(
    stage: Stage, answers: list[Any], point: str, action: str, decision: Decision | None = None
) -> AgentResponse:
    """Kill or freeze a worker at a point of a turn, let a second one continue, and return the answer."""
    first = await stage.worker("first", answers, at=point, action=action)
    inbox_id = await stage.accepts("room: do it", decision=decision)
    await (first.until_gone() if action == "kill" else first.until(point))
    await stage.age_the_dead()
    second = await stage.worker("second", answers)
    response = await stage.response(inbox_id)
    await stage.until_delivered(1 if decision is None else 2)
    if action == "freeze":
        first.signal(signal.SIGCONT)
        await first.stop()
    await second.stop()
    return response


@pytest.mark.parametrize("action", ["kill", "freeze"])
async def test_each_of_two_confirmed_calls_runs_at_most_once_and_an_unknown_outcome_is_reported(
    postgres: URL, new_address: Address, tmp_path: Path, action: str
) -> None:
    async with open_stage_on(new_address, tmp_path / str(new_address.url.database)) as stage:
        decision = await ask(stage)
    points = await list_points(open_copy(postgres, tmp_path, new_address), GOES_ON, decision)
    # The confirmation is consumed before the call begins, and the result recorded after it ends.
    # A call is in doubt from the commit behind which it begins until that of its result; the second begins then.
    spent = points.index(RUNS) - 1
    first, second = (points.index(f"effect after {number}") + 2 for number in (1, 2))
    assert [points[number][:12] for number in (spent, first, second)] == ["commit after"] * 3
    # The rest is as in every turn; a worker frozen earlier finds its confirmation consumed when it wakes up.
    begin = 0 if action == "kill" else spent - 1
    numbers = [points.index(point) for point in list_deaths(points[begin : second + 1])]

    async def one(number: int) -> list[str]:
        async with open_copy(postgres, tmp_path, new_address) as stage:
            response = await disturb(stage, GOES_ON, points[number], action, decision)
            effect_ids = [call_id for (call_id,) in await stage.rows("SELECT call_id FROM stage_effects")]
            results = [str(call.result) for call in response.tool_calls_made]
            in_doubt = 0 if spent <= number < first else 1 if first <= number < second else None
            checks = {
                "done twice": len(effect_ids) == len(set(effect_ids)),
                "not done": len(effect_ids) == 2 or in_doubt is not None,
                "not done nor in doubt": len(effect_ids) >= 1,
                "results": ["effect done" if index != in_doubt else "unknown" for index in range(2)]
                == ["unknown" if "The outcome is unknown" in result else result for result in results],
                "yes not spent": await stage.rows("SELECT status FROM confirmations") == [("used",)],
                "answer": response.content == "It is done.",
            }
            return [
                f"{action} at {points[number]}: {name} ({results})" for name, is_right in checks.items() if not is_right
            ]

    assert await broken_at_each(numbers, one) == []


async def test_a_question_that_was_never_delivered_cannot_be_confirmed(stages: Databases, tmp_path: Path) -> None:
    points = await list_points(open_stage(stages, tmp_path), ASKS)
    points = list_deaths(points[: points.index("send before 1") + 1])

    async def one(point: str) -> list[str]:
        async with open_stage(stages, tmp_path) as stage:
            response = await disturb(stage, ASKS, point, "kill")
            rows = await stage.rows("SELECT id, status FROM confirmations")
            has_question = response.confirmation is not None
            checks = {
                "effects": await stage.value("SELECT count(*) FROM stage_effects") == 0,
                "questions": rows == ([(response.confirmation.id, "pending")] if response.confirmation else []),
                "answer": response.content == (QUESTION if has_question else "It is done."),
            }
            return [f"{point}: {name} ({rows})" for name, is_right in checks.items() if not is_right]

    assert await broken_at_each(points, one) == []
