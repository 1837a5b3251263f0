"""A call that has failed is not run again with the same arguments."""

import json

from agent.tools.outcomes import Failed
from agent.turn.policies.calls import Repetition
from tests.agent.turn.policies.calls import answer, call_step, ended, journal, pending

CALL = call_step(2, "wall.post", {"text": "a", "to": 1})


async def test_a_call_that_failed_is_told_its_error_again_whatever_the_order_of_its_arguments() -> None:
    repetition = Repetition(journal(answer(1), CALL, ended(3, CALL, "failed")))

    outcome = await repetition.check(pending("wall.post", {"to": 1, "text": "a"}))

    assert isinstance(outcome, Failed)
    assert json.loads(outcome.content)["message"] == "no"
    assert "hint" in json.loads(outcome.content)


async def test_other_arguments_may_be_tried() -> None:
    repetition = Repetition(journal(answer(1), CALL, ended(3, CALL, "failed")))
    call = pending("wall.post", {"text": "b"})

    assert await repetition.check(call) is call


async def test_a_call_that_failed_and_was_left_out_since_has_still_failed() -> None:
    again = call_step(5, "wall.post", CALL.value)
    steps = journal(answer(1), CALL, ended(3, CALL, "failed"), answer(4), again, ended(6, again, "not_run"))

    assert isinstance(await Repetition(steps).check(pending("wall.post", CALL.value)), Failed)


async def test_the_success_of_another_call_changes_nothing() -> None:
    other = call_step(5, "wall.post", {"text": "b"})
    steps = journal(answer(1), CALL, ended(3, CALL, "failed"), answer(4), other, ended(6, other, "result", "b"))

    assert isinstance(await Repetition(steps).check(pending("wall.post", CALL.value)), Failed)


async def test_a_call_that_succeeded_since_or_was_left_out_may_be_made_again() -> None:
    again = call_step(5, "wall.post", CALL.value)
    healed = journal(answer(1), CALL, ended(3, CALL, "failed"), answer(4), again, ended(6, again, "result", "a"))
    left_out = journal(answer(1), CALL, ended(3, CALL, "not_run"))
    call = pending("wall.post", CALL.value)

    for steps in (healed, left_out):
        assert await Repetition(steps).check(call) is call
