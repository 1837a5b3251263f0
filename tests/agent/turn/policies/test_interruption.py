"""A call with effects that may have been begun is not made a second time."""

from agent.tools.outcomes import Failed
from agent.turn.policies.calls import Interruption
from tests.agent.turn.policies.calls import pending

ID = "call_1_2"


async def test_an_interrupted_call_with_effects_has_an_unknown_outcome() -> None:
    assert isinstance(await Interruption([ID]).check(pending("wall.post", {"text": "a"})), Failed)


async def test_reading_is_repeated_and_so_is_what_carries_out_an_answer() -> None:
    looking = pending("wall.look")
    answer = pending("wall.post", {"text": "a"}, confirmation={"id": 1, "approved": True})

    for call in (looking, answer):
        assert await Interruption([ID]).check(call) is call


async def test_a_call_of_this_attempt_goes_on() -> None:
    call = pending("wall.post", {"text": "a"}, call_id="call_1_5")

    assert await Interruption([ID]).check(call) is call
