"""One question about all the calls of an answer that need a yes: asked once, answered together, each run once."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from agent.tools.modules import ModuleTools, discover
from shared.db.database import Address
from shared.messages import AgentResponse, Decision, Permission
from shared.settings import Settings
from shared.tools import Tool, ToolContext
from tests.standins.openai_api import Answer, Fault, OpenAIStub
from tests.support.delegating import add_agent, play
from tests.support.delegating import ask as delegate
from tests.support.office import MAIL, Office, age, calls, new_office, open_office, parley_of_office, statuses
from tests.support.parley import Parley, open_parley
from tests.support.planning import call, plan

__all__ = ["new_office", "parley_of_office"]

OTHER = ("office__send", {"to": "carl", "body": "Hi."})
BROWSE = ("office__browse", dict[str, Any]())
BOTH = [("bob", "See you at eight."), ("carl", "Hi.")]
ASKED = """I need your yes for 2 things; it counts for all of them, and your no for none.

**1.** Send “See you at eight.” to bob?

**2.** Send “Hi.” to carl?

(Answer yes or no within ten minutes.)"""


def post(words: str) -> tuple[str, dict[str, Any]]:
    """Return a call that changes something for others."""
    return "office__post", {"text": words}


async def ask(parley: Parley, *then: Answer | Fault, **options: Any) -> AgentResponse:
    """Let the model make two calls that need a yes, and one that needs none; `then` are its later answers."""
    parley.model.play([calls(MAIL, OTHER, post("gone")), *then])
    return await parley.ask("mail both", **options)


def decide(question: AgentResponse) -> Decision:
    """Return the yes to a question, as a button gives it."""
    assert question.confirmation is not None
    return Decision(question.confirmation.id, approved=True)


async def test_one_question_shows_all_calls_that_need_a_yes_and_one_yes_runs_each_once(
    parley: Parley, office: Office
) -> None:
    question = await ask(parley, Answer("Both are sent."))
    assert (question.content, office.sent, office.posted) == (ASKED, [], ["gone"])
    assert (len(await statuses(parley)), question.confirmation is not None) == (1, True)

    reply = await parley.ask("yes")

    assert (reply.content, office.sent, office.posted) == ("Both are sent.", BOTH, ["gone"])
    assert [(tool_call.tool, tool_call.args, tool_call.result) for tool_call in reply.tool_calls_made] == [
        ("office.send", MAIL[1], {"sent_to": "bob"}),
        ("office.send", OTHER[1], {"sent_to": "carl"}),
    ]
    assert await statuses(parley) == ["used"]
    shown = parley.model.requests[-1].body["messages"]
    assert [message["role"] for message in shown[-4:]] == ["user", "assistant", "tool", "tool"]


async def test_approved_calls_run_one_after_another(
    settings: Settings, address: Address, model: OpenAIStub, office: Office
) -> None:
    steps: list[str] = []

    async def move(context: ToolContext, what: str) -> str:
        """Move something."""
        await context.confirm(f"Move {what}?")
        steps.append(f"{what} begins")
        async with context.transaction() as session:
            await session.execute(text("SELECT 1"))
        steps.append(f"{what} ends")
        return "moved"

    tools = ModuleTools([*discover().tools.values(), Tool(move, Permission.GUEST, module="office", confirms=True)])
    parameters = {"default_guest_modules": ("office",), "default_guest_token_budget": 1_000_000}
    async with open_parley(settings.model_copy(update=parameters), address, model, modules=tools) as parley:
        model.play([calls(*(("office__move", {"what": what}) for what in "abc")), Answer("Moved.")])
        await parley.ask("move all")
        await parley.ask("yes")

    assert steps == [f"{what} {end}" for what in "abc" for end in ("begins", "ends")]


async def test_one_no_refuses_all(parley: Parley, office: Office) -> None:
    await ask(parley, Answer("I leave it."))

    reply = await parley.ask("no")

    assert (reply.content, office.sent, await statuses(parley)) == ("I leave it.", [], ["denied"])
    assert [tool_call.result["message"][:18] for tool_call in reply.tool_calls_made] == ["The person said no"] * 2


async def test_calls_that_ask_themselves_and_calls_after_untrusted_text_are_asked_about_together(
    parley: Parley, office: Office
) -> None:
    parley.model.play([calls(BROWSE), calls(post("`4,200`"), MAIL), Answer("Done.")])

    question = await parley.ask("go on")

    blocks = question.content.split("**2.** ")
    assert blocks[0].startswith("I need your yes for 2 things")
    assert "**1.** Shall I use `office.post` with exactly this?" in blocks[0]
    assert '"text": "\\u00604,200\\u0060"' in blocks[0]
    assert blocks[1].startswith("Send “See you at eight.” to bob?\n\nI ask because I have read here")
    assert question.content.count("I ask because") == 1
    assert (await parley.ask("yes")).content == "Done."
    assert (office.posted, office.sent) == (["`4,200`"], BOTH[:1])


async def test_a_call_that_needs_another_approver_is_asked_about_alone(parley: Parley, office: Office) -> None:
    office.approver = Permission.ADMIN
    parley.model.play([calls(BROWSE), calls(MAIL, post("all")), calls(post("all")), Answer("Done.")])
    await parley.sql("UPDATE users SET permission_level = 'admin', token_budget_monthly = NULL")

    question = await parley.ask("go on")
    assert question.content.startswith(
        "Send “See you at eight.” to bob?\n\n(Answer yes or no within ten minutes; a yes"
    )
    await parley.sql("UPDATE users SET permission_level = 'admin', token_budget_monthly = NULL")

    question = await parley.ask("yes")
    assert (office.sent, office.posted) == (BOTH[:1], [])
    assert question.content.startswith("Shall I use `office.post` with exactly this?")
    assert (await parley.ask("yes")).content == "Done."
    assert office.posted == ["all"]


async def test_what_would_make_the_question_too_long_is_not_part_of_it(parley: Parley, office: Office) -> None:
    texts = [letter * 2500 for letter in "abc"]
    parley.model.play([calls(BROWSE), calls(*map(post, texts)), Answer("Two are posted.")])

    question = await parley.ask("go on")

    assert question.content.startswith("I need your yes for 2 things")
    assert (texts[1] in question.content, texts[2] in question.content) == (True, False)
    assert (await parley.ask("yes")).content == "Two are posted."
    assert office.posted == texts[:2]


async def test_many_answers_at_once_run_each_call_once(parley: Parley, office: Office) -> None:
    question = await ask(parley)

    accepted = [await parley.accept("yes", decision=decide(question)) for _ in range(3)]
    accepted += [await parley.accept("yes") for _ in range(3)]
    await asyncio.gather(*(parley.app.events.response(receipt.inbox_id) for receipt in accepted))

    assert (office.sent, await statuses(parley)) == (BOTH, ["used"])


async def test_another_persons_yes_runs_none(parley: Parley, office: Office) -> None:
    question = await ask(parley, Answer("Hm?"), server="acme")

    await parley.ask("yes", user="bob", server="acme")
    by_id = await parley.ask("yes", user="eve", server="acme", decision=decide(question))

    assert (office.sent, by_id.error, await statuses(parley)) == ([], "confirmation_closed", ["pending"])


async def test_a_late_yes_runs_none(parley: Parley, office: Office) -> None:
    await ask(parley)
    await age(parley, 10)

    reply = await parley.ask("yes")

    assert (reply.error, office.sent, await statuses(parley)) == ("confirmation_expired", [], ["expired"])


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE confirmations SET arguments = replace(arguments, 'carl', 'eve')",
        "UPDATE confirmations SET arguments = (arguments::jsonb - 1)::text",
        "UPDATE confirmations SET arguments = (arguments::jsonb || arguments::jsonb)::text",
    ],
)
async def test_the_table_refuses_a_changed_set_of_calls(parley: Parley, change: str) -> None:
    await ask(parley)

    with pytest.raises(IntegrityError, match="confirmations_arguments_are_as_they_were_asked"):
        await parley.sql(change)


async def test_calls_whose_questions_have_changed_are_asked_about_again(parley: Parley, office: Office) -> None:
    await ask(parley, Answer("Sent."))
    office.footer = " It costs 3,000 € now."

    again = await parley.ask("yes")
    assert (again.content.count("It costs 3,000 € now."), office.sent) == (2, [])

    assert (await parley.ask("yes")).content == "Sent."
    assert (office.sent, await statuses(parley)) == (BOTH, ["used", "used"])


async def test_a_yes_that_may_have_meant_something_else_repeats_the_whole_question(
    parley: Parley, office: Office
) -> None:
    await ask(parley, Answer("He is your brother. Do you like tea?"), Answer("Sent."))
    await parley.ask("who is Bob?")

    unsure = await parley.ask("yes")
    assert (unsure.content.endswith(f"which is still open:\n\n{ASKED}"), office.sent) == (True, [])

    await parley.ask("yes")
    assert (office.sent, await statuses(parley)) == (BOTH, ["expired", "used"])


async def test_each_call_is_reported_when_no_model_can_be_reached(parley: Parley) -> None:
    await ask(parley, *[Fault(500)] * 20)

    reply = await parley.ask("yes")

    assert reply.content.startswith("I have done it: `office.send`.\nI have done it: `office.send`.\n\nI can't reach")


async def test_the_calls_of_an_agents_answer_are_asked_about_together_and_run_as_the_agents(
    settings: Settings, address: Address, model: OpenAIStub, office: Office
) -> None:
    async with open_office(settings, address, model, office, modules=("knowledge",)) as parley:
        await add_agent(parley, "clerk", modules='["office"]')
        play(model, asker=[calls(delegate("clerk", "Mail both.")), "Both have it."], clerk=[calls(MAIL, OTHER)])

        question = await parley.ask("mail both")
        row = (await parley.sql("SELECT agent, tool, arguments FROM confirmations"))[0]
        reply = await parley.ask("yes")

    assert (question.content, row.agent, row.tool) == (ASKED, "clerk", "office.send, office.send")
    assert [load["arguments"] for load in json.loads(row.arguments)] == [MAIL[1], OTHER[1]]
    assert (reply.content, office.sent) == ("Both have it.", BOTH)


@pytest.fixture
async def planner(settings: Settings, address: Address, model: OpenAIStub, office: Office) -> AsyncIterator[Parley]:
    """An installation in planner mode with tools that need a person's yes."""
    async with open_office(settings.model_copy(update={"planner_percent": 100}), address, model, office) as parley:
        yield parley


async def test_a_plan_asks_once_about_the_calls_that_can_run(
    planner: Parley, model: OpenAIStub, office: Office
) -> None:
    mails = (call("office.send", "s", **MAIL[1]), call("office.send", "t", **OTHER[1]))
    notes = call("office.post", "p", "s", "t", text="Both know.")
    model.play([plan(*mails, notes, status="done", response="Both know."), plan(response="Done.")])

    question = await planner.ask("mail both, then post it")
    reply = await planner.ask("yes")

    assert (question.content, reply.content) == (ASKED, "Done.")
    assert (office.sent, office.posted) == (BOTH, [])
