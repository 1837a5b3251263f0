"""Agents whose calls need a person's yes, and taint between an agent and its asker."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from agent.agents.delegation.provider import AgentTools
from shared.db.database import Address
from shared.messages import AgentResponse, ProgramRequest
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.delegating import ASKER, add_agent, ask, play, requests_of, result_of
from tests.support.office import MAIL, Office, calls, new_office, open_office, statuses
from tests.support.parley import Parley
from tests.support.planning import call, plan
from tests.support.recovery import open_parley_with
from tests.test_peers import FakePeers, add_peer

__all__ = ["new_office"]

BROWSE, LOOK_UP = ("office__browse", dict[str, Any]()), ("office__look_up", dict[str, Any]())
POST = ("office__post", {"text": "Ann earns 4,200."})
SUM = ("calculator__calculate", {"expression": "6*7"})
ASKED = "Send “See you at eight.” to bob?\n\n(Answer yes or no within ten minutes.)"


@pytest.fixture
async def parley(settings: Settings, address: Address, model: OpenAIStub, office: Office) -> AsyncIterator[Parley]:
    """An installation where only the clerk may use the tools of the office."""
    async with open_office(settings, address, model, office, modules=("knowledge",)) as parley:
        await add_agent(parley, "clerk", modules='["office", "agents", "calculator"]')
        yield parley


@pytest.fixture
async def open_parley(settings: Settings, address: Address, model: OpenAIStub, office: Office) -> AsyncIterator[Parley]:
    """An installation where everybody may use the tools of the office."""
    async with open_office(settings, address, model, office) as parley:
        await add_agent(parley, "clerk")
        yield parley


async def mail(parley: Parley, *then: Answer | str) -> AgentResponse:
    """Let the model ask the clerk to send a mail; `then` are the asker's later answers."""
    play(parley.model, asker=[calls(ask("clerk", "Mail Bob.")), *then], clerk=[calls(MAIL)])
    return await parley.ask("mail Bob")


async def test_an_agents_question_goes_to_the_person_and_a_yes_runs_the_agents_call(
    parley: Parley, office: Office
) -> None:
    question = await mail(parley, "Bob has his mail.")
    assert (question.content, question.confirmation is not None, office.sent) == (ASKED, True, [])
    row = (await parley.sql("SELECT agent, tool, turn_id, status FROM confirmations"))[0]
    assert tuple(row) == ("clerk", "office.send", question.turn_id, "pending")

    reply = await parley.ask("yes")

    assert (reply.content, office.sent) == ("Bob has his mail.", [("bob", "See you at eight.")])
    assert [(call.tool, call.result) for call in reply.tool_calls_made] == [("office.send", {"sent_to": "bob"})]
    assert await statuses(parley) == ["used"]
    assert "office__send" not in str(requests_of(parley, ASKER)[-1]["tools"])


async def test_a_task_that_a_strangers_text_may_have_caused_is_not_the_persons_own_words(
    open_parley: Parley, office: Office
) -> None:
    task = ask("clerk", "Post on the wall: Ann earns 4,200.")
    play(open_parley.model, asker=[calls(BROWSE), calls(task)], clerk=[calls(POST)])

    asking_reply = await open_parley.ask("read the page and do what is needed")

    assert (asking_reply.confirmation is not None, office.posted) == (True, [])


async def test_the_taint_of_the_asker_reaches_an_agent_of_a_programs_request(
    open_parley: Parley, office: Office
) -> None:
    play(open_parley.model, asker=[calls(BROWSE), calls(ask("clerk", "Do it."))], clerk=[calls(POST)])

    asking_reply = await open_parley.ask("read the page", request=ProgramRequest(has_conversation=True))

    assert (asking_reply.confirmation is not None, office.posted) == (True, [])


async def test_an_agent_may_do_what_the_person_said(open_parley: Parley, office: Office) -> None:
    task = ask("clerk", "Write it on the wall.")
    play(open_parley.model, asker=[calls(BROWSE), calls(task), "Done."], clerk=[calls(POST), "Posted."])

    reply = await open_parley.ask("read the page, then let the clerk post: Ann earns 4,200.")

    assert (reply.content, office.posted) == ("Done.", ["Ann earns 4,200."])


async def test_a_no_to_an_agents_question_runs_nothing(parley: Parley, office: Office) -> None:
    await mail(parley, "Then not.")

    assert (await parley.ask("no")).content == "Then not."
    assert (office.sent, await statuses(parley)) == ([], ["denied"])


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE agents SET is_enabled = false",
        "UPDATE agents SET required_permission = 'admin'",
        "SELECT admin.set_module('agents', is_enabled => false)",
        "SELECT admin.set_module('agents', permission => 'admin')",
        "UPDATE personas SET allowed_modules = '[\"calculator\"]' WHERE name = 'clerk'",
    ],
)
async def test_a_confirmed_call_of_an_agent_is_not_run_without_permission(
    parley: Parley, office: Office, change: str
) -> None:
    await mail(parley, "I can't any more.")
    await parley.sql(change)

    reply = await parley.ask("yes")

    assert (reply.content, office.sent) == ("I can't any more.", [])
    assert reply.tool_calls_made[0].result["error"] is True


async def test_a_question_is_passed_up_through_several_agents(parley: Parley, office: Office) -> None:
    await add_agent(parley, "typist", modules='["office"]')
    play(
        parley.model,
        asker=[calls(ask("clerk")), "Sent."],
        clerk=[calls(ask("typist"))],
        typist=[calls(MAIL)],
    )

    assert (await parley.ask("mail Bob")).content == ASKED
    assert (await parley.ask("yes")).content == "Sent."
    assert (len(office.sent), await parley.value("SELECT agent FROM confirmations")) == (1, "typist")


async def test_an_agent_is_tainted_by_what_its_asker_has_read(open_parley: Parley, office: Office) -> None:
    play(
        open_parley.model,
        asker=[calls(BROWSE), calls(ask("clerk", "Post what she earns.")), "Posted."],
        clerk=[calls(LOOK_UP), calls(POST)],
    )

    question = await open_parley.ask("what's new?")

    assert question.content.startswith("Shall I use `office.post` with exactly this?")
    assert office.posted == []
    assert (await open_parley.ask("yes")).content == "Posted."
    assert len(office.posted) == 1


async def test_the_asker_is_tainted_by_what_its_agent_has_read(open_parley: Parley, office: Office) -> None:
    play(
        open_parley.model,
        asker=[calls(ask("clerk")), calls(POST)],
        clerk=[calls(BROWSE), calls(LOOK_UP), "She earns 4,200; post it on the wall!"],
    )

    question = await open_parley.ask("what does she earn?")

    assert (question.confirmation is not None, office.posted) == (True, [])


async def test_what_an_agent_has_read_counts_when_its_turn_is_part_of_a_summary(
    open_parley: Parley, office: Office
) -> None:
    play(
        open_parley.model,
        asker=[calls(ask("clerk")), "Told.", calls(POST), "Done."],
        clerk=[calls(BROWSE), calls(LOOK_UP), "She earns 4,200."],
    )
    await open_parley.ask("what does she earn?")
    await open_parley.sql(
        "UPDATE conversations SET summary = 'Ann asked what she earns.',"
        " window_turn_id = (SELECT max(id) + 1 FROM turns)"
    )

    question = await open_parley.ask("go on")

    assert (question.confirmation is not None, office.posted) == (True, [])


async def test_an_agent_that_has_read_nothing_untrusted_does_not_taint_its_asker(
    open_parley: Parley, office: Office
) -> None:
    play(
        open_parley.model,
        asker=[calls(LOOK_UP), calls(ask("clerk")), calls(POST), "Done."],
        clerk=[calls(SUM), "42"],
    )

    assert (await open_parley.ask("go on")).content == "Done."
    assert len(office.posted) == 1


async def test_a_task_with_private_data_goes_to_another_installation_only_after_a_yes(
    settings: Settings, address: Address, model: OpenAIStub, office: Office
) -> None:
    peers = FakePeers(lambda _task: "From afar.")
    parameters = {"default_guest_modules": ("office",), "default_guest_token_budget": 1_000_000}
    async with open_parley_with(
        settings.model_copy(update=parameters),
        address,
        model,
        agents=partial(AgentTools, peers=peers),
        modules=office.modules(),
    ) as parley:
        await add_peer(parley)
        free = ("agents__delegate", {"agent": "abroad", "task": "What is new?"})
        leak = ("agents__delegate", {"agent": "abroad", "task": "She earns 4,200."})
        play(model, asker=[calls(LOOK_UP), calls(free), calls(leak), "Told."])

        question = await parley.ask("go on")

        assert [task for _, task, _, _ in peers.asked] == ["What is new?"]
        assert question.content.startswith("Shall I use `agents.delegate` with exactly this?")
        assert "She earns 4,200." in question.content
        assert (await parley.ask("yes")).content == "Told."
        assert [task for _, task, _, _ in peers.asked] == ["What is new?", "She earns 4,200."]


async def test_no_confirmation_is_asked_over_a2a(open_parley: Parley, office: Office) -> None:
    play(open_parley.model, asker=[calls(MAIL), "I may not."])

    reply = await open_parley.ask("mail Bob", adapter="a2a")

    assert (reply.confirmation, office.sent, await statuses(open_parley)) == (None, [], [])
    assert "nobody here who could be asked" in result_of(requests_of(open_parley, ASKER)[-1])


async def test_calls_of_a_plan_are_tainted_by_the_calls_that_they_need(open_parley: Parley, office: Office) -> None:
    await open_parley.sql(
        "INSERT INTO personas (name, system_prompt, is_default, loop_mode) VALUES ('P', 'Plan.', true, 'planner')"
    )
    steps = [
        call("office.browse", "a"),
        call("office.look_up", "b"),
        call("office.post", "c", "a", "b", text="Hello."),
        call("office.post", "d", "c", text="Hello again."),
    ]
    open_parley.model.play([Answer(plan(*steps)), Answer(plan(response="Posted."))])

    question = await open_parley.ask("go on")

    assert (question.confirmation is not None, office.posted) == (True, [])
    left_out = [call.result for call in question.tool_calls_made if call.args == {"text": "Hello again."}]
    assert [result["not_run"] for result in left_out] == [True]
    assert (await open_parley.ask("yes")).content == "Posted."
    assert office.posted == ["Hello."]
