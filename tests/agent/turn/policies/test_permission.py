"""What was offered may not be this person's any more."""

from agent.tools.outcomes import Failed
from agent.turn.policies.calls import Permitted
from tests.agent.turn.policies.calls import BOX, pending


async def test_a_tool_that_this_person_may_not_use_is_not_there() -> None:
    outcome = await Permitted(BOX).check(pending("wall.rule"))

    assert isinstance(outcome, Failed)
    assert "There is no tool 'wall.rule' here." in outcome.content
    assert "wall__look" in outcome.content


async def test_a_tool_that_they_may_use_goes_on() -> None:
    call = pending("wall.look")

    assert await Permitted(BOX).check(call) is call
