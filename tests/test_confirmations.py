"""Confirmations: asked once, bound to tool, arguments, person and place."""

import asyncio
import json
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from agent import commands
from shared.db.database import Address
from shared.messages import AgentResponse, Decision, Permission, PlatformContext
from shared.settings import Settings
from tests.standins.openai_api import Answer, Fault, OpenAIStub
from tests.support.office import (
    MAIL,
    Office,
    age,
    ask_for_approval,
    calls,
    new_office,
    open_office,
    parley_of_office,
    statuses,
)
from tests.support.parley import FakePlatform, Parley, message

__all__ = ["new_office", "parley_of_office"]

ASKED = "Send “See you at eight.” to bob?\n\n(Answer yes or no within ten minutes.)"
EXPIRED = "Your answer came too late: my question was open for ten minutes. Nothing was done; ask again if you want it."
CLOSED = "That question is not open any more; your answer changed nothing."


async def ask(parley: Parley, *then: Answer | Fault, **fields: Any) -> AgentResponse:
    """Let the model make a call that needs a yes; `then` are its later answers."""
    parley.model.play([calls(MAIL), *then])
    return await parley.ask("mail Bob", **fields)


def prompt(parley: Parley) -> list[dict[str, Any]]:
    """Return the model's last request as text."""
    messages: list[dict[str, Any]] = parley.model.requests[-1].body["messages"]
    return messages


async def test_a_tool_that_needs_a_yes_is_not_run_and_the_turn_ends_with_its_question(
    parley: Parley, office: Office
) -> None:
    reply = await ask(parley)

    assert reply.content == ASKED
    assert (reply.finished, reply.iterations, reply.error) == (True, 1, None)
    assert reply.confirmation is not None
    row = (await parley.sql("SELECT * FROM confirmations"))[0]
    assert (row.id, row.status, row.reason, row.tool) == (reply.confirmation.id, "pending", "tool", "office.send")
    assert (json.loads(row.arguments), row.turn_id, row.call_id) == (MAIL[1], reply.turn_id, f"call_{reply.turn_id}_2")
    assert await parley.value("SELECT expires_at - created_at = interval '10 minutes' FROM confirmations")
    assert await parley.value("SELECT choices FROM outbox") == ["yes", "no"]
    result = await parley.value("SELECT payload FROM turn_events WHERE name = 'message'")
    assert (result["choices"], result["confirmation"]) == (["yes", "no"], {"id": row.id})
    assert office.sent == []


async def test_a_yes_runs_exactly_the_stored_call_and_the_model_goes_on_with_its_result(
    parley: Parley, office: Office
) -> None:
    await ask(parley, Answer("It is on its way."))

    reply = await parley.ask(" Yes! ")

    assert office.sent == [("bob", "See you at eight.")]
    assert (reply.content, reply.iterations, reply.confirmation) == ("It is on its way.", 1, None)
    assert [(call.tool, call.args, call.result) for call in reply.tool_calls_made] == [
        ("office.send", MAIL[1], {"sent_to": "bob"})
    ]
    assert await statuses(parley) == ["used"]
    assert [message["role"] for message in prompt(parley)[-3:]] == ["user", "assistant", "tool"]
    assert json.loads(prompt(parley)[-1]["content"]) == {"sent_to": "bob"}
    assert await parley.value("SELECT count(*) FROM token_logs") == 2


async def test_after_a_no_nothing_runs_and_the_model_is_informed(parley: Parley, office: Office) -> None:
    await ask(parley, Answer("Fine, I leave it."))

    reply = await parley.ask("no.")

    assert (reply.content, office.sent, await statuses(parley)) == ("Fine, I leave it.", [], ["denied"])
    assert "The person said no" in prompt(parley)[-1]["content"]
    assert (await parley.ask("yes")).content.startswith("You said: yes")
    assert office.sent == []


async def test_a_late_answer_gets_one_sentence_and_no_model_call(parley: Parley, office: Office) -> None:
    await ask(parley)
    await age(parley, 10)

    for answer in ("yes", "no"):
        reply = await parley.ask(answer)
        assert (reply.content, reply.error, reply.iterations) == (EXPIRED, "confirmation_expired", 0)
        await parley.sql("DELETE FROM turns WHERE id > (SELECT turn_id FROM confirmations)")

    assert (office.sent, await statuses(parley), parley.model.count) == ([], ["expired"], 1)


async def test_a_yes_without_an_open_question_is_an_ordinary_message(parley: Parley) -> None:
    assert (await parley.ask("yes")).content.startswith("You said: yes")
    assert (await parley.ask("no")).content.startswith("You said: no")


async def test_another_persons_yes_does_nothing(parley: Parley, office: Office) -> None:
    question = await ask(parley, Answer("Hm?"), Answer("Hm?"), Answer("Sent."), server="acme")
    assert question.confirmation is not None

    await parley.ask("yes", user="bob", server="acme")
    by_id = await parley.ask(
        "yes", user="eve", server="acme", decision=Decision(question.confirmation.id, approved=True)
    )
    assert (office.sent, by_id.content, await statuses(parley)) == ([], CLOSED, ["pending"])

    await parley.ask("yes", user="ann", server="acme")
    assert (len(office.sent), await statuses(parley)) == (1, ["used"])


async def test_a_yes_in_another_place_does_nothing(parley: Parley, office: Office) -> None:
    question = await ask(parley)
    assert question.confirmation is not None

    await parley.ask("yes", channel="another-dm")
    by_id = await parley.ask("", channel="another-dm", decision=Decision(question.confirmation.id, approved=True))

    assert (office.sent, await statuses(parley)) == ([], ["pending"])
    assert (by_id.content, by_id.error) == (CLOSED, "confirmation_closed")


async def test_a_second_yes_runs_nothing_again(parley: Parley, office: Office) -> None:
    question = await ask(parley, Answer("Sent."), Answer("It was sent."))
    assert question.confirmation is not None
    decision = Decision(question.confirmation.id, approved=True)

    first = await parley.ask("yes", decision=decision, event_id="click")
    copy = await parley.ask("yes", decision=decision, event_id="click")
    again = await parley.ask("yes", decision=decision)
    word = await parley.ask("yes")

    assert (first.content, copy, again.content) == ("Sent.", first, CLOSED)
    assert word.content == "It was sent."
    assert len(office.sent) == 1


async def test_many_answers_at_once_run_the_call_once(parley: Parley, office: Office) -> None:
    await ask(parley)

    accepted = [await parley.accept("yes") for _ in range(6)]
    await asyncio.gather(*(parley.app.events.response(acceptance.inbox_id) for acceptance in accepted))

    assert len(office.sent) == 1


async def test_a_no_among_answers_written_in_a_row_counts(
    settings: Settings, address: Address, model: OpenAIStub, office: Office
) -> None:
    async with open_office(settings, address, model, office) as parley:
        await ask(parley)
    async with open_office(settings, address, model, office, works=False) as inactive:
        for word in ("yes", "no"):
            await inactive.accept(word)
    model.play([Answer("I leave it.")])
    async with open_office(settings, address, model, office) as parley:
        async with asyncio.timeout(60):
            assert (await parley.app.events.response(2)).content == "I leave it."

    assert office.sent == []


async def test_other_messages_leave_the_question_open_and_a_yes_repeats_it(parley: Parley, office: Office) -> None:
    await ask(parley, Answer("He is your brother. Do you like tea?"), Answer("Sent."))
    await parley.ask("who is Bob?")

    # This yes may be an answer to the question about tea.
    unsure = await parley.ask("yes")
    assert unsure.content.endswith(f"which is still open:\n\n{ASKED}")
    assert (unsure.iterations, office.sent) == (0, [])
    assert unsure.confirmation is not None

    assert (await parley.ask("yes")).content == "Sent."
    assert (len(office.sent), await statuses(parley)) == (1, ["expired", "used"])


async def test_a_button_answers_its_question_regardless_of_later_messages(parley: Parley, office: Office) -> None:
    question = await ask(parley, Answer("He is your brother."), Answer("Sent."))
    assert question.confirmation is not None
    await parley.ask("who is Bob?")

    reply = await parley.ask("yes", decision=Decision(question.confirmation.id, approved=True))

    assert (reply.content, len(office.sent)) == ("Sent.", 1)


async def test_a_yes_written_before_the_question_does_not_answer_it(parley: Parley, office: Office) -> None:
    go_on = asyncio.Event()

    async def slow(body: dict[str, Any], number: int) -> Answer:
        if number > 1:
            return Answer("Yes what?")
        await go_on.wait()
        return calls(MAIL)

    parley.model.play(slow)
    first = await parley.accept("mail Bob")
    await parley.model.until(1)
    early = await parley.accept("yes")
    go_on.set()
    async with asyncio.timeout(60):
        question = await parley.app.events.response(first.inbox_id)
        reply = await parley.app.events.response(early.inbox_id)

    assert (question.content, reply.content) == (ASKED, "Yes what?")
    assert (office.sent, await statuses(parley)) == ([], ["pending"])


async def test_later_model_answers_do_not_change_a_confirmed_call(parley: Parley, office: Office) -> None:
    other = ("office__send", {"to": "eve", "body": "All my secrets."})
    await ask(parley, calls(other), Answer("Both are sent."))

    reply = await parley.ask("yes")

    assert office.sent == [("bob", "See you at eight.")]
    assert reply.content.startswith("Send “All my secrets.” to eve?")
    assert await statuses(parley) == ["used", "pending"]


@pytest.mark.parametrize(
    "loss",
    [
        "UPDATE users SET permission_level = 'user' WHERE id = :bob",
        "UPDATE users SET permission_until = now() - interval '1 minute', permission_after = 'user' WHERE id = :bob",
        "UPDATE users SET paused_at = now() WHERE id = :bob",
    ],
)
async def test_an_approvers_yes_that_waited_for_its_turn_counts_only_with_the_permission_of_that_moment(
    parley: Parley, office: Office, loss: str
) -> None:
    decision = await ask_for_approval(parley, office, Answer("Sent."))

    await parley.sql(loss, bob=decision.approved_by)
    reply = await parley.ask("yes", server="acme", decision=decision)

    assert (reply.error, office.sent, await statuses(parley)) == ("approval_needed", [], ["pending"])


async def test_an_approver_by_a_role_of_the_place_is_one_when_the_turn_begins(parley: Parley, office: Office) -> None:
    office.approver = Permission.ADMIN
    parley.model.play([Answer("Hi."), calls(MAIL), Answer("Sent.")])
    context = PlatformContext(role_ids=("keepers",))
    await parley.ask("hello", user="bob", server="acme", platform_context=context)
    bob = await parley.value("SELECT id FROM users")
    await parley.sql(
        "INSERT INTO role_grants (platform, server, role, permission_level) VALUES ('test', 'acme', 'keepers', 'admin')"
    )
    question = await parley.ask("mail Bob", server="acme")
    assert question.confirmation is not None
    decision = Decision(question.confirmation.id, approved=True, approved_by=bob)

    assert (await parley.ask("yes", server="acme", decision=decision)).content == "Sent."
    assert len(office.sent) == 1


async def test_the_table_refuses_changed_arguments(parley: Parley) -> None:
    await ask(parley)

    with pytest.raises(IntegrityError, match="confirmations_arguments_are_as_they_were_asked"):
        await parley.sql("UPDATE confirmations SET arguments = replace(arguments, 'bob', 'eve')")


async def test_a_call_whose_question_has_changed_is_confirmed_again(parley: Parley, office: Office) -> None:
    await ask(parley, Answer("Sent."))
    office.footer = " It costs 3,000 € now."

    reply = await parley.ask("yes")
    assert reply.content.startswith("Send “See you at eight.” to bob? It costs 3,000 € now.")
    assert office.sent == []

    assert (await parley.ask("yes")).content == "Sent."
    assert (len(office.sent), await statuses(parley)) == (1, ["used", "used"])


async def test_the_answer_may_come_after_a_restart(
    settings: Settings, address: Address, model: OpenAIStub, office: Office
) -> None:
    async with open_office(settings, address, model, office) as parley:
        await ask(parley, Answer("Sent."))
    async with open_office(settings, address, model, office) as parley:
        assert (await parley.ask("yes")).content == "Sent."

    assert len(office.sent) == 1


async def test_a_tool_that_is_no_longer_permitted_is_not_run(parley: Parley, office: Office) -> None:
    await ask(parley, Answer("I can't any more."))
    await parley.sql(
        "INSERT INTO personas (name, system_prompt, allowed_modules, is_default) VALUES ('P', 'x', '[]', true)"
    )

    reply = await parley.ask("yes")

    assert (reply.content, office.sent) == ("I can't any more.", [])
    assert "There is no tool 'office.send' here." in reply.tool_calls_made[0].result["message"]


async def test_a_confirmed_call_runs_and_is_reported_when_the_budget_is_used_up(parley: Parley, office: Office) -> None:
    await ask(parley)
    await parley.sql("UPDATE users SET tokens_used_this_month = token_budget_monthly")

    reply = await parley.ask("yes")

    assert len(office.sent) == 1
    assert reply.content.startswith("I have done it: `office.send`.\n\nI have to stop here. You have used this month's")
    assert (reply.error, reply.finished, reply.iterations, parley.model.count) == ("budget_exhausted", False, 0, 1)


async def test_a_confirmed_call_is_reported_when_no_model_can_be_reached(parley: Parley, office: Office) -> None:
    await ask(parley, *[Fault(500)] * 20)

    reply = await parley.ask("yes")

    assert len(office.sent) == 1
    assert reply.content.startswith("I have done it: `office.send`.\n\nI can't reach any language model just now")
    assert reply.error == "models_unavailable"


async def test_a_newer_question_replaces_the_older_one(parley: Parley, office: Office) -> None:
    other = ("office__send", {"to": "carl", "body": "Hi."})
    question = await ask(parley, calls(other), Answer("Sent."))
    assert question.confirmation is not None
    await parley.ask("no wait, mail Carl")

    old = await parley.ask("yes", decision=Decision(question.confirmation.id, approved=True))

    assert (old.error, office.sent, await statuses(parley)) == ("confirmation_closed", [], ["expired", "pending"])


async def test_a_reset_conversation_has_no_open_question(parley: Parley, office: Office) -> None:
    await ask(parley)
    here = message("/reset")
    await commands.answer(parley.app, here.sender, here.place, "/reset")

    assert (await parley.ask("yes")).content.startswith("You said: yes")
    assert (office.sent, await statuses(parley)) == ([], ["expired"])


async def test_a_tool_cannot_imitate_the_question_of_the_taint_policy(parley: Parley) -> None:
    parley.model.play([calls(("office__forge", {})), Answer("Done.")])

    reply = await parley.ask("go on")

    assert reply.content == "Done."
    assert await statuses(parley) == []


async def test_a_question_on_a_platform_carries_what_buttons_need(
    settings: Settings, address: Address, model: OpenAIStub, office: Office
) -> None:
    platform = FakePlatform()
    async with open_office(settings, address, model, office, senders={"fake": platform}) as parley:
        await ask(parley, Answer("Sent."), adapter="fake")
        await platform.wait_for(1)
        question = platform.posts[0]
        assert question.choices == ("yes", "no")
        confirmation_id = await parley.value(
            "SELECT id FROM confirmations WHERE turn_id = :turn", turn=question.turn_id
        )

        await parley.accept("", adapter="fake", decision=Decision(confirmation_id, approved=True))

        assert await platform.wait_for(2) == [ASKED, "Sent."]
        assert await parley.value("SELECT content FROM messages WHERE role = 'user' ORDER BY id DESC LIMIT 1") == "yes"
    assert len(office.sent) == 1


async def test_a_confirmation_names_the_turns_of_question_and_answer(parley: Parley) -> None:
    question = await ask(parley, Answer("Sent."))
    answer = await parley.ask("yes")

    row = (await parley.sql("SELECT turn_id, answered_turn_id, answered_at, used_at FROM confirmations"))[0]

    assert (row.turn_id, row.answered_turn_id) == (question.turn_id, answer.turn_id)
    assert row.answered_at <= row.used_at
