"""Why a turn went as it did: `admin.explain_turn` for admins, `parley explain` for operators, `/why` for the person."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.commands import answer as answer_command
from shared.errors import Refusal
from shared.messages import AgentResponse, Place, Sender
from tests.standins.openai_api import Answer, Fault, OpenAIStub
from tests.support.command_line import types
from tests.support.eventually import eventually
from tests.support.parley import Parley

SAGE = """
INSERT INTO personas (name, system_prompt, platform, allowed_modules)
VALUES ('Sage', 'You are wise.', 'test', '["calculator", "knowledge"]')
"""
DIRECT = Place("test", None, "dm-ann", is_direct=True)


async def explained(parley: Parley, turn_id: int) -> dict[str, Any]:
    story: dict[str, Any] = await parley.value("SELECT admin.explain_turn(:id)", id=turn_id)
    return story


async def why(parley: Parley, line: str = "/why", *, user: str = "ann", place: Place = DIRECT) -> str:
    reply = await answer_command(parley.app, Sender("test", user, user.title()), place, line)
    assert reply is not None
    assert reply.is_private
    return reply.text


async def test_a_turn_is_explained_from_the_persona_to_the_delivery(
    parley: Parley, model: OpenAIStub, tmp_path: Path
) -> None:
    await parley.sql(SAGE)
    await parley.sql(
        "INSERT INTO budgets (kind, persona_id, period, token_limit) SELECT 'persona', id, 'day', 90000 FROM personas"
    )
    model.play([Answer(tool_calls=[("knowledge__remember", {"content": "Ann counts on her fingers."})]), "Noted."])
    await parley.ask("I count on my fingers, remember that.")
    await eventually(lambda: parley.value("SELECT has_memories FROM users"))
    call = Answer(tool_calls=[("calculator__calculate", {"expression": "2 + 3"})])
    model.play([Fault(503), call, "Five."])
    answer = await parley.ask("How much is 2 + 3 on my fingers?")
    # What is changed afterwards doesn't count.
    await parley.sql("UPDATE personas SET system_prompt = 'You are a pirate.'")
    await parley.sql("DELETE FROM personas USING set_config('parley.delete_history', 'yes', true)")

    story = await explained(parley, answer.turn_id)

    _check_story(story, answer)
    # What is kept beside the journal has no text of people.
    reasons = json.dumps(await parley.value("SELECT reasons FROM turn_contexts ORDER BY turn_id DESC LIMIT 1"))
    assert not {word for word in ("How much", "Five", "fingers") if word in reasons}
    await _check_command_line(parley, tmp_path, answer)
    await _check_own_command(parley, answer)


def _check_story(story: dict[str, Any], answer: AgentResponse) -> None:
    assert (story["turn"]["status"], story["turn"]["waves"], story["turn"]["model_calls"]) == ("answered", 1, 2)
    persona = story["persona"]
    assert (persona["name"], persona["version"], persona["chosen_by"]) == ("Sage", 1, "platform")
    assert (persona["newest_version"], persona["is_deleted"]) == (3, True)
    assert persona["fields"]["system_prompt"] == "You are wise."
    assert "calculator.calculate" in story["tools"]["offered"]
    assert "file_manager.list_files" in story["tools"]["removed"]["the persona does not allow the module"]
    assert any(rule.startswith("needs the permission") for rule in story["tools"]["removed"])
    assert (story["context"]["history"]["turns"], story["context"]["turns_left_out"]) == (1, 0)
    tried = [(route["route"], route["outcome"]) for route in story["routes"]]
    assert tried == [("openai/stub", outcome) for outcome in ("unreachable", "answered", "answered")]
    assert [admission["status"] for admission in story["budget"]["admissions"]] == ["admitted", "admitted"]
    limits = [(limit["limit"], limit["period"], limit["unit"], limit["allowed"]) for limit in story["budget"]["limits"]]
    assert limits == [("person", "30 days", "tokens", 5000), ("persona", "day", "tokens", 90000)]
    assert (story["budget"]["spent"], story["budget"]["held"]) == (answer.usage.total, None)
    [wave] = story["waves"]
    assert [(call["tool"], call["outcome"]) for call in wave["calls"]] == [("calculator.calculate", "result")]
    assert [step["role"] for step in story["steps"]] == ["user", "assistant", "tool_call", "tool_result", "assistant"]
    assert (len(story["model_calls"]), story["delivery"][0]["status"]) == (2, "delivered")


async def _check_command_line(parley: Parley, home: Path, answer: AgentResponse) -> None:
    async def typed(*arguments: str) -> str:
        return await types(parley.app.database.address, home, "explain", *arguments)

    turn = str(answer.turn_id)
    assert json.loads(await typed(turn, "--json")) == await explained(parley, answer.turn_id)
    assert "persona       Sage, version 1 (deleted since): it belongs to the platform" in await typed(turn)
    with pytest.raises(Refusal, match=f"there is no turn 999; the last one is {turn}"):
        await typed("999")


async def _check_own_command(parley: Parley, answer: AgentResponse) -> None:
    reason = await why(parley)
    assert "Persona: Sage, version 1: it belongs to the platform." in reason
    # With the memories that they may read here.
    assert '"Ann counts on her fingers." (' in reason
    assert "calculator.calculate (result)" in reason
    assert f"It cost you {answer.usage.total:,} tokens" in reason
    assert await why(parley, f"/why {answer.turn_id}") == reason
    # In a channel nothing of a direct message is told, and nobody is told about the turns of others.
    lounge = Place("test", "guild", "lounge")
    assert await why(parley, f"/why {answer.turn_id}", place=lounge) == "You have no such turn here."
    assert await why(parley, f"/why {answer.turn_id}", user="bob") == "You have no such turn here."
    assert await why(parley, user="bob") == "I have not answered you here yet."
    assert (await why(parley, "/why not")).startswith("Write /why for your last answer here")


async def test_a_refused_turn_says_which_budget_refused_it(parley: Parley) -> None:
    await parley.ask("hello")
    await parley.sql("UPDATE users SET token_budget_monthly = 0")

    answer = await parley.ask("hello again")

    story = await explained(parley, answer.turn_id)
    assert story["turn"]["status"] == "refused"
    assert story["budget"]["admissions"][0]["status"] == "exhausted"
    assert "this month's budget" in story["budget"]["admissions"][0]["refusal"]
    assert story["budget"]["limits"][0]["allowed"] == 0 < story["budget"]["limits"][0]["used"]
    assert (story["persona"]["chosen_by"], story["routes"]) == ("built_in", [])
    assert "Budget: You have used this month's budget" in await why(parley)
