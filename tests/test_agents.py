"""Agents: who may use them, what they see and what they may use, according to the current rows."""

import json
from typing import Any

import pytest

from agent.tools.modules import ModuleTools
from shared.db.database import Address
from shared.messages import Permission
from shared.settings import Settings
from shared.tools import Tool, ToolContext
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import ScriptedCall
from tests.support.delegating import ASKER, add_agent, ask, events_of, play, requests_of, result_of, tools_of
from tests.support.parley import Parley, open_parley

DELEGATE = "agents__delegate"

pytestmark = pytest.mark.settings(default_guest_token_budget=100_000)


async def test_agents_add_one_tool_and_change_no_other(parley: Parley) -> None:
    await parley.ask("hello")
    before = requests_of(parley, ASKER)[-1]["tools"]
    await add_agent(parley, "scout")
    await parley.ask("hello")

    after = requests_of(parley, ASKER)[-1]["tools"]
    assert after[:-1] == before
    assert after[-1]["function"]["name"] == DELEGATE
    await parley.sql("UPDATE agents SET is_enabled = false")
    await parley.ask("hello")
    assert requests_of(parley, ASKER)[-1]["tools"] == before


async def test_the_tool_lists_the_agents_that_the_person_may_use_in_a_stable_text(parley: Parley) -> None:
    for name in ("writer", "scout", "butler"):
        await add_agent(parley, name, requires="admin" if name == "butler" else "guest")
    await parley.ask("hello")
    await parley.ask("hello", user="bob")
    await parley.sql("UPDATE users SET permission_level = 'admin' WHERE id = 1")
    await parley.ask("hello")

    first, second, admin = (
        json.dumps([tool for tool in request["tools"] if tool["function"]["name"] == DELEGATE])
        for request in requests_of(parley, ASKER)
    )
    assert first == second
    lines = json.loads(first)[0]["function"]["description"].splitlines()[-2:]
    assert lines == ["- scout: Knows about scout things.", "- writer: Knows about writer things."]
    assert json.loads(admin)[0]["function"]["description"].splitlines()[-3].startswith("- butler: ")


async def test_a_persona_delegates_only_when_its_modules_contain_agents(parley: Parley) -> None:
    await add_agent(parley, "scout")
    await parley.sql(
        "INSERT INTO personas (name, system_prompt, is_default, allowed_modules)"
        " VALUES ('p', 'Be kind.', true, '[\"calendar\"]')"
    )
    play(parley.model, asker=["Hi.", Answer(tool_calls=[ask("scout")]), "No.", "Hi."])
    await parley.ask("hello")
    assert DELEGATE not in tools_of(requests_of(parley, ASKER)[-1])
    reply = await parley.ask("ask the scout")
    assert reply.tool_calls_made[0].result["message"] == "There is no tool 'agents__delegate' here."

    await parley.sql("UPDATE personas SET allowed_modules = '[\"agents\"]' WHERE is_default")
    await parley.ask("hello")
    assert tools_of(requests_of(parley, ASKER)[-1]) == [DELEGATE]


async def test_an_unknown_agent_is_an_error_that_names_those_there_are(parley: Parley) -> None:
    await add_agent(parley, "scout")
    await add_agent(parley, "butler", requires="admin")
    play(
        parley.model,
        asker=[Answer(tool_calls=[ask("butler"), ask("nobody"), ask("scout", " ")]), "Sorry."],
    )

    reply = await parley.ask("ask around")

    butler, nobody, empty = (call.result for call in reply.tool_calls_made)
    assert butler == {"error": True, "message": "There is no agent 'butler' here.", "agents": ["scout"]}
    assert nobody == {"error": True, "message": "There is no agent 'nobody' here.", "agents": ["scout"]}
    assert empty["message"] == "The task is empty: write down what the agent is to do."
    result = [payload for name, payload in await events_of(parley, 1) if name == "delegation_response"]
    assert [(answer["agent"], answer["error"], answer["iterations"]) for answer in result] == [
        ("butler", butler["message"], 0), ("nobody", nobody["message"], 0), ("scout", empty["message"], 0),
    ]  # fmt: skip
    assert await parley.value("SELECT count(*) FROM turns") == 1


async def test_a_guests_agent_may_use_no_more_than_the_guest(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    ran: list[str] = []

    def build(name: str, requires: Permission) -> Tool:
        async def run(context: ToolContext) -> str:
            """Run the task."""
            ran.append(f"{name} for {context.user.name}")
            return "done"

        run.__name__ = name
        return Tool(run, requires, module="house")

    modules = ModuleTools([build("look", Permission.GUEST), build("demolish", Permission.ADMIN)])
    async with open_parley(settings, address, model, modules=modules) as parley:
        await add_agent(parley, "builder", modules='["house"]')
        tools: list[ScriptedCall] = [("house__demolish", {}), ("house__look", {})]
        play(
            model,
            asker=[Answer(tool_calls=[ask("builder")]), "Done."] * 2,
            builder=[Answer(tool_calls=tools), "Looked."] * 2,
        )

        await parley.ask("tear it down")

        assert tools_of(requests_of(parley, "builder")[0]) == ["house__look"]
        assert "There is no tool 'house__demolish' here." in result_of(requests_of(parley, "builder")[1], 0)
        assert ran == ["look for Ann"]
        await parley.sql("UPDATE users SET permission_level = 'admin'")
        await parley.ask("tear it down")
        assert sorted(ran[1:]) == ["demolish for Ann", "look for Ann"]


async def test_an_agent_has_the_modules_model_and_limits_of_its_persona(parley: Parley) -> None:
    await add_agent(parley, "scout", modules='["calendar"]', max_tokens=77, model="openai/small")
    play(parley.model, asker=[Answer(tool_calls=[ask("scout")]), "Done."], scout=["Found."])

    await parley.ask("look around")

    (request,) = requests_of(parley, "scout")
    assert request["model"] == "small"
    assert 77 in (request.get("max_tokens"), request.get("max_completion_tokens"))
    assert {name.partition("__")[0] for name in tools_of(request)} == {"calendar"}
    assert await parley.value("SELECT model FROM turns WHERE agent = 'scout'") == "openai/small"


@pytest.mark.parametrize("server", [None, "acme"])
async def test_an_agent_recalls_only_memories_visible_in_the_place(parley: Parley, server: str | None) -> None:
    await add_agent(parley, "scout")
    fact = ("knowledge__remember", {"content": "Ann is looking for a new job"})
    play(
        parley.model,
        asker=[Answer(tool_calls=[fact]), "I will.", Answer(tool_calls=[ask("scout", "What job?")]), "Done."],
        scout=["No idea."],
    )
    await parley.ask("remember that I am looking for a new job")

    await parley.ask("ask the scout what job", server=server)

    (request,) = requests_of(parley, "scout")
    assert ("new job" in json.dumps(request)) == (server is None)


async def test_a_change_of_an_agent_counts_from_the_next_message(parley: Parley) -> None:
    await add_agent(parley, "scout")
    play(
        parley.model,
        asker=[Answer(tool_calls=[ask("scout")]), "Done."] * 2,
        scout=["Found."],
        **{"a spy": ["Not found."]},
    )
    await parley.ask("look around")
    await parley.sql("UPDATE personas SET system_prompt = 'You are a spy.'")
    second = await parley.ask("look around")

    assert second.tool_calls_made[0].result["result"] == "Not found."


async def test_an_agent_that_is_switched_off_while_the_model_thinks_is_not_asked(parley: Parley) -> None:
    await add_agent(parley, "scout")

    async def think(body: Any, _number: int) -> Answer:
        if any(message["role"] == "tool" for message in body["messages"]):
            return Answer("Sorry.")
        await parley.sql("UPDATE agents SET is_enabled = false")
        return Answer(tool_calls=[ask("scout")])

    play(parley.model, asker=think, scout=["Found."])

    reply = await parley.ask("look around")

    assert reply.tool_calls_made[0].result["message"] == "The agent scout has been switched off."
    assert requests_of(parley, "scout") == []
