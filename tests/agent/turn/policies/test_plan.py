"""A call of a plan waits for what it needs, and is left out when that did not succeed."""

import json

from msgspec.structs import replace

from agent.journal.steps import Step, TurnLog
from agent.tools.outcomes import Failed, NotRun
from agent.turn.planner.execution import PlanObstacle
from agent.turn.planner.plan import Plan, PlannedCall
from tests.agent.turn.policies.calls import answer, call_step, ended, journal, pending

FIRST = call_step(2, "wall.look", {"at": "a"})
CALLS = (
    PlannedCall("a", "wall.look", {"at": "a"}, needs=(), level=0),
    PlannedCall("b", "wall.post", {"text": "$a.missing"}, needs=("a",), level=1),
)
PLAN = Plan("continue", "act", {}, reasoning="", response="", calls=CALLS, waves=2)
SECOND = pending("wall.post", {"text": "$a.missing"}, seq=3)


def obstacle(plan: Plan, *results: Step) -> PlanObstacle:
    """Return the policy of a turn whose last answer was this plan."""
    planned = replace(answer(1), plan=plan.to_journal())
    return PlanObstacle(TurnLog(1, journal(planned, FIRST, *results)))


async def test_a_call_that_needs_nothing_goes_on() -> None:
    call = pending("wall.look", {"at": "a"}, seq=2)

    assert await obstacle(PLAN).check(call) is call


async def test_a_call_whose_need_failed_is_left_out() -> None:
    outcome = await obstacle(PLAN, ended(4, FIRST, "failed")).check(SECOND)

    assert isinstance(outcome, NotRun)
    assert json.loads(outcome.content)["not_run"] is True


async def test_a_call_beyond_the_last_wave_is_left_out() -> None:
    outcome = await obstacle(replace(PLAN, waves=1), ended(4, FIRST, "result", {"at": "a"})).check(SECOND)

    assert isinstance(outcome, NotRun)


async def test_arguments_that_cannot_be_filled_in_say_what_is_there() -> None:
    outcome = await obstacle(PLAN, ended(4, FIRST, "result", {"at": "a"})).check(SECOND)

    assert isinstance(outcome, Failed)
    assert "it has: at." in outcome.content


async def test_calls_of_an_answer_that_was_no_plan_go_on() -> None:
    native = PlanObstacle(TurnLog(1, journal(answer(1), FIRST)))

    assert await native.check(SECOND) is SECOND
