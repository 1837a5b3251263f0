"""One answer may hold so many calls."""

from agent.journal.steps import TurnLog
from agent.tools.outcomes import Failed
from agent.turn.policies.calls import MAX_CALLS, Surplus
from tests.agent.turn.policies.calls import answer, journal, pending


async def test_the_first_call_beyond_the_limit_is_told_so() -> None:
    surplus = Surplus(TurnLog(1, journal(answer(1))))
    last, beyond = pending("wall.look", seq=1 + MAX_CALLS), pending("wall.look", seq=2 + MAX_CALLS)

    assert await surplus.check(last) is last
    outcome = await surplus.check(beyond)
    assert isinstance(outcome, Failed)
    assert str(MAX_CALLS) in outcome.content
