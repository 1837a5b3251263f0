"""Once the model was shown untrusted text and private data, a call that acts needs the person's yes."""

from typing import Any

from agent.journal.steps import TurnLog
from agent.people.participants import Participants, ResolvedConversation, ResolvedUser
from agent.tools.calls import PendingCall, Taint
from agent.tools.outcomes import Failed, NeedsApproval
from agent.turn.policies.taint import TaintGuard, TurnTaint
from tests.agent.turn.policies.calls import BOX, answer, call_step, ended, journal, pending
from tests.support.parley import Parley, message

LOG = TurnLog(1, journal())


def post(text: str, **options: Any) -> PendingCall:
    return pending("wall.post", {"text": text}, **options)


def guard(parley: Parley, level: Taint, log: TurnLog) -> TaintGuard:
    """Return the guard of a turn whose prompt holds this, beside the results in its log."""
    question = message("hello")
    user = ResolvedUser(1, pending("wall.look").scope.user.permission, "Ann", "UTC", "monday")
    conversation = ResolvedConversation(1, question.place, None, 0)
    persona = pending("wall.look").scope.persona
    taint = TurnTaint(parley.app.database, BOX, Participants(user, persona, conversation, 1, ()), question, (), level)
    return TaintGuard(taint, BOX, log)


async def test_a_call_that_acts_is_held_back_once_both_were_shown(parley: Parley) -> None:
    outcome = await guard(parley, Taint.WHOLE, LOG).check(post("a"))

    assert isinstance(outcome, NeedsApproval)
    assert (outcome.request.reason, outcome.request.tool) == ("taint", "wall.post")
    assert '"text": "a"' in outcome.request.text


async def test_without_untrusted_text_nothing_is_held_back(parley: Parley) -> None:
    call = post("a")

    for level in (Taint.NONE, Taint.PRIVATE):
        assert await guard(parley, level, LOG).check(call) is call
    assert isinstance(await guard(parley, Taint.UNTRUSTED, LOG).check(call), NeedsApproval)


async def test_what_the_person_said_is_held_back_by_nothing(parley: Parley) -> None:
    # The message of this turn is "hello".
    call = post("Hello!")

    assert await guard(parley, Taint.WHOLE, LOG).check(call) is call


async def test_reading_agreed_calls_and_wrong_arguments_go_on(parley: Parley) -> None:
    tainted = guard(parley, Taint.WHOLE, LOG)

    for call in (pending("wall.look"), post("a", agreed_to="Shall I?"), pending("wall.post", {"no": "text"})):
        assert await tainted.check(call) is call


async def test_where_nobody_can_be_asked_the_call_fails(parley: Parley) -> None:
    tainted = guard(parley, Taint.WHOLE, LOG)

    assert isinstance(await tainted.check(post("a", can_ask=False)), Failed)


async def test_results_of_a_tool_that_is_gone_may_be_anybodys_words(parley: Parley) -> None:
    call = call_step(2, "street.listen", {})
    log = TurnLog(1, journal(answer(1), call, ended(3, call, "result", "a")))

    assert isinstance(await guard(parley, Taint.PRIVATE, log).check(post("a")), NeedsApproval)


async def test_a_result_says_itself_that_others_may_have_written_it(parley: Parley) -> None:
    look = call_step(2, "wall.look", {})
    for result, is_held in (({"seen": 1, "untrusted": True}, True), ({"seen": 1, "untrusted": False}, False)):
        log = TurnLog(1, journal(answer(1), look, ended(3, look, "result", result)))

        outcome = await guard(parley, Taint.PRIVATE, log).check(post("a"))

        assert isinstance(outcome, NeedsApproval) == is_held
