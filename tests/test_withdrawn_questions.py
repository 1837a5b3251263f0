"""A question goes with the message that led to it: nobody's yes counts once that was edited or deleted."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from adapters.chat.intake import Edits
from shared.errors import ConfirmationClosed
from shared.messages import AgentResponse, Decision, Place
from tests.standins.openai_api import Answer
from tests.support.connections import until_somebody_waits
from tests.support.office import MAIL, Office, ask_for_approval, calls, new_office, parley_of_office, statuses
from tests.support.parley import Parley

__all__ = ["new_office", "parley_of_office"]

Change = Callable[[Parley], Awaitable[Any]]
PLACE = Place("test", None, "dm-ann", is_direct=True)


async def edit(parley: Parley) -> None:
    """Take the order back in a message that was sent."""
    await Edits(parley.app, "test").change(PLACE, "order", "mail")


async def delete(parley: Parley) -> None:
    """Delete the message."""
    await Edits(parley.app, "test").delete(["order"])


async def approve(parley: Parley, question: AgentResponse) -> AgentResponse:
    """Say yes to a question by its number, as a button does."""
    assert question.confirmation is not None
    return await parley.ask("yes", decision=Decision(question.confirmation.id, approved=True))


HOLD_USE = """
ALTER FUNCTION parley_use_yes RENAME TO use_yes_at_once;
CREATE FUNCTION parley_use_yes(p_id bigint, p_turn_id bigint, p_attempt int)
RETURNS TABLE (tool text, arguments text, question text, agent text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(4711);
    RETURN QUERY SELECT * FROM use_yes_at_once(p_id, p_turn_id, p_attempt);
END
$$;
SELECT pg_advisory_lock(4711);
"""


@asynccontextmanager
async def before_it_is_used(owner: asyncpg.Connection, answer: Awaitable[Any]) -> AsyncIterator[None]:
    """Run the block when the turn of a yes has begun, and is about to use it up; wait for the answer."""
    await owner.execute(HOLD_USE)
    answering = asyncio.ensure_future(answer)
    await until_somebody_waits(owner)
    yield
    await owner.execute("SELECT pg_advisory_unlock(4711)")
    await answering


async def edit_the_answer(parley: Parley) -> None:
    """Take the yes back in its message."""
    await Edits(parley.app, "test").change(PLACE, "answer", "no, don't!")


@pytest.mark.parametrize("change", [edit, delete, edit_the_answer])
async def test_a_yes_that_is_not_used_yet_goes_with_the_message(
    parley: Parley, office: Office, owner: asyncpg.Connection, change: Change
) -> None:
    parley.model.play([calls(MAIL, MAIL), Answer("Hm?"), Answer("Hm?"), Answer("Hm?")])
    question = await parley.ask("mail Bob", event_id="order")
    assert question.confirmation is not None
    decision = Decision(question.confirmation.id, approved=True)

    async with before_it_is_used(owner, parley.ask("yes", decision=decision, event_id="answer")):
        await change(parley)

    assert (office.sent, await statuses(parley)) == ([], ["expired"])
    assert "does not count any more" in str(parley.model.requests[-1].body["messages"])
    await approve(parley, question)
    assert office.sent == []


@pytest.mark.parametrize(
    "loss",
    [
        "UPDATE users SET permission_level = 'user' WHERE id = (SELECT approved_by FROM confirmations)",
        "UPDATE users SET paused_at = now() WHERE id = (SELECT approved_by FROM confirmations)",
        "SET parley.delete_history = 'yes'; DELETE FROM users WHERE id = (SELECT approved_by FROM confirmations)",
    ],
)
async def test_an_approvers_yes_that_is_not_used_yet_goes_with_the_right_to_say_it(
    parley: Parley, office: Office, owner: asyncpg.Connection, loss: str
) -> None:
    decision = await ask_for_approval(parley, office, Answer("Hm?"))

    async with before_it_is_used(owner, parley.ask("yes", server="acme", decision=decision)):
        await owner.execute(loss)

    assert (office.sent, await statuses(parley)) == ([], ["approved"])


@pytest.mark.parametrize("change", [edit, delete])
async def test_no_yes_counts_for_what_a_changed_message_asked_for(
    parley: Parley, office: Office, change: Change
) -> None:
    parley.model.play([calls(MAIL), Answer("Hm?"), Answer("Hm?")])
    question = await parley.ask("mail Bob", event_id="order")

    await change(parley)

    assert (await approve(parley, question)).content == str(ConfirmationClosed())
    await parley.ask("yes")
    assert (office.sent, await statuses(parley)) == ([], ["expired"])


@pytest.mark.parametrize("change", [edit, delete])
async def test_a_question_that_was_repeated_or_has_changed_goes_too(
    parley: Parley, office: Office, change: Change
) -> None:
    parley.model.play([calls(MAIL), Answer("Do you like tea?"), Answer("Hm?")])
    await parley.ask("mail Bob", event_id="order")
    await parley.ask("who is Bob?")
    await parley.ask("yes")
    office.footer = " It costs 3,000 € now."
    question = await parley.ask("yes")
    assert await statuses(parley) == ["expired", "used", "pending"]

    await change(parley)

    assert (await approve(parley, question)).content == str(ConfirmationClosed())
    assert (office.sent, (await statuses(parley))[-1]) == ([], "expired")


@pytest.mark.parametrize("change", [edit, delete])
async def test_a_question_is_not_open_whose_message_changed_while_its_turn_ran(
    parley: Parley, office: Office, change: Change
) -> None:
    go_on = asyncio.Event()

    async def slow(_body: dict[str, Any], number: int) -> Answer:
        await go_on.wait()
        return calls(MAIL) if number == 1 else Answer("Hm?")

    parley.model.play(slow)
    order = await parley.accept("mail Bob", event_id="order")
    # So that its deletion does not stop the turn.
    await parley.model.until(1)
    await parley.sql(
        "INSERT INTO inbox SELECT (jsonb_populate_record(inbox, jsonb_build_object("
        "'id', nextval(pg_get_serial_sequence('inbox', 'id')), 'platform_event_id', 'other', 'content', 'please'))).*"
        " FROM inbox"
    )

    await change(parley)
    go_on.set()
    async with asyncio.timeout(60):
        await parley.app.events.response(order.inbox_id)

    await parley.ask("yes")
    assert (office.sent, await statuses(parley)) == ([], ["expired"])


async def test_an_edit_of_another_message_leaves_the_question_open(parley: Parley, office: Office) -> None:
    parley.model.play([Answer("Hello."), calls(MAIL), Answer("Sent.")])
    await parley.ask("hello", event_id="order")
    question = await parley.ask("mail Bob")

    await edit(parley)

    assert (await approve(parley, question)).content == "Sent."
    assert len(office.sent) == 1


async def test_a_question_of_an_edited_message_offers_no_yes_any_more(parley: Parley) -> None:
    parley.model.play([calls(MAIL)])
    question = await parley.ask("mail Bob", event_id="order", adapter="fake")
    await parley.platform.wait_for(1)
    await edit(parley)
    offers = []

    async def show(_answer: Any, buttons: Any) -> None:
        offers.append(buttons)

    await Edits(parley.app, "test").offer_again(question.turn_id, "ann", show)

    (buttons,) = offers
    assert ([action.label for action in buttons.actions], list(buttons.choices)) == (["Answer the edited message"], [])
