"""A yes is spent once, on its very call."""

from agent.journal.steps import TurnKey
from agent.tools.calls import PendingCall
from agent.tools.outcomes import Failed
from agent.turn.policies.calls import Approval
from shared.db.database import Address
from shared.settings import Settings
from tests.agent.turn.policies.calls import BOX, pending
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.office import MAIL, Office, calls, open_office
from tests.support.parley import Parley


def decision_call(confirmation_id: int, *, approved: bool) -> PendingCall:
    return pending("wall.post", {"text": "a"}, confirmation={"id": confirmation_id, "approved": approved})


def approval_of(parley: Parley, key: TurnKey) -> Approval:
    return Approval(parley.app.database, parley.app.settings, BOX, key=key)


async def test_a_call_that_answers_no_question_goes_on(parley: Parley) -> None:
    call = pending("wall.post", {"text": "a"})

    assert await approval_of(parley, TurnKey(1, 1)).check(call) is call


async def test_a_call_that_was_denied_is_never_run(parley: Parley) -> None:
    outcome = await approval_of(parley, TurnKey(1, 1)).check(decision_call(1, approved=False))

    assert isinstance(outcome, Failed)


async def test_a_yes_is_spent_once(settings: Settings, address: Address, model: OpenAIStub) -> None:
    async with open_office(settings, address, model, Office()) as parley:
        model.play([calls(MAIL), Answer("Sent.")])
        reply = await parley.ask("mail Bob")
        assert reply.confirmation is not None
        # As when the turn of the answer has begun.
        await parley.sql("UPDATE turns SET status = 'running', finished_at = NULL")
        await parley.sql(
            "UPDATE confirmations SET status = 'approved', answered_at = now(), answered_turn_id = turn_id"
        )
        approval = approval_of(parley, TurnKey(reply.turn_id, 1))
        call = decision_call(reply.confirmation.id, approved=True)

        agreed, again = await approval.check(call), await approval.check(call)
        await parley.sql("UPDATE turns SET status = 'answered', finished_at = now()")

    assert isinstance(agreed, PendingCall)
    assert agreed.agreed_to == "Send “See you at eight.” to bob?"
    assert isinstance(again, Failed)
