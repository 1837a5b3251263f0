"""Limits of an agent: the person's budget, the turn's time, a stop, the depth of delegation."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest

from agent.live.channels import request_stop
from shared.db.database import Address
from shared.db.hosts import URL
from shared.messages import Place
from shared.settings import Settings
from tests.standins.openai_api import Answer, Fault, OpenAIStub
from tests.standins.openai_api.script import ScriptedCall
from tests.support.delegating import ASKER, Part, add_agent, ask, play, requests_of, result_of, tools_of, until
from tests.support.parley import Parley, open_parley
from tests.support.recovery import cut_connections

DELEGATE = "agents__delegate"
LOOK: ScriptedCall = ("knowledge__list_memories", {})


pytestmark = pytest.mark.settings(default_guest_token_budget=100_000)


async def nothing_is_held(parley: Parley) -> bool:
    rows = await parley.sql("SELECT sum(tokens_reserved), (SELECT count(*) FROM budget_reservations) FROM users")
    ledger = (
        "SELECT (SELECT sum(tokens_used_this_month) FROM users) - sum(input_tokens + output_tokens) FROM token_logs"
    )
    return tuple(rows[0]) == (0, 0) and await parley.value(ledger) == 0


def costly(text: str = "", tokens: int = 1000, **fields: Any) -> Answer:
    return Answer(text, usage={"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}, **fields)


async def test_an_agent_stops_when_the_persons_budget_is_used_up(parley: Parley) -> None:
    await add_agent(parley, "scout")
    await parley.ask("hello")
    tokens = await parley.value("SELECT tokens_used_this_month FROM users")
    await parley.sql("UPDATE users SET token_budget_monthly = :budget", budget=tokens + 1500)
    play(
        parley.model,
        asker=[costly(tool_calls=[ask("scout")]), costly("Never said.")],
        scout=[costly("I look.", tool_calls=[LOOK]), costly("Never said.")],
    )

    reply = await parley.ask("look around")

    result = reply.tool_calls_made[0].result
    assert (result["reason"], result["agent"], result["iterations"]) == ("budget_exhausted", "scout", 1)
    assert "You have used this month's budget; it renews on " in result["message"]
    assert (reply.error, reply.finished) == ("budget_exhausted", False)
    assert len(parley.model.requests) == 3
    assert await parley.value("SELECT tokens_used_this_month FROM users") == tokens + 2000
    assert await nothing_is_held(parley)
    assert await parley.value("SELECT status FROM turns WHERE agent = 'scout'") == "answered"


async def test_agents_with_budget_for_one_call_at_a_time_do_not_deadlock(
    parley: Parley,
) -> None:
    names = ("scout", "writer", "clerk")
    for name in names:
        await add_agent(parley, name)
    await parley.ask("hello")
    # Every reservation is larger than what is left, so that only one call is admitted at a time.
    await parley.sql("UPDATE users SET token_budget_monthly = tokens_used_this_month + 2000")
    play(
        parley.model,
        asker=[costly(tokens=10, tool_calls=[ask(name) for name in names]), costly("Done.", tokens=10)],
        **{name: [costly(tokens=10, tool_calls=[LOOK]), costly(f"I am {name}.", tokens=10)] for name in names},
    )

    reply = await parley.ask("all of you")

    assert reply.content == "Done."
    assert [call.result["result"] for call in reply.tool_calls_made] == [f"I am {name}." for name in names]
    assert parley.model.peak == 1
    assert await nothing_is_held(parley)


async def test_a_task_is_delegated_at_most_three_times(parley: Parley) -> None:
    chain = ["first", "second", "third", "fourth"]
    for name in chain:
        await add_agent(parley, name)
    parts: dict[str, Part] = {
        name: [Answer(tool_calls=[ask(successor)]), f"{name} is done."] for name, successor in pairwise(chain)
    }
    play(parley.model, asker=[Answer(tool_calls=[ask("first")]), "Done."], **parts)

    reply = await parley.ask("hand it on")

    assert reply.tool_calls_made[0].result == {"result": "first is done.", "agent": "first", "iterations": 6}
    last = requests_of(parley, "third")
    assert DELEGATE not in tools_of(last[0])
    assert json.loads(result_of(last[1]))["message"] == (
        "agents.delegate can't be used here: This task has been handed on 3 times (first → second → third), which is"
        " the most. Do it yourself."
    )
    rows = await parley.sql("SELECT agent, parent_turn_id FROM turns ORDER BY id")
    assert [tuple(row) for row in rows] == [(None, None), ("first", 1), ("second", 2), ("third", 3)]
    assert reply.usage.total == await parley.value("SELECT sum(input_tokens + output_tokens) FROM token_logs")


async def test_an_agent_cannot_be_asked_by_an_agent_that_works_for_it(parley: Parley) -> None:
    await add_agent(parley, "scout")
    await add_agent(parley, "writer")
    play(
        parley.model,
        asker=[Answer(tool_calls=[ask("scout")]), "Done."],
        scout=[Answer(tool_calls=[ask("scout"), ask("writer")]), "Found."],
        writer=[Answer(tool_calls=[ask("scout")]), "Written."],
    )

    await parley.ask("look around")

    itself = json.loads(result_of(requests_of(parley, "scout")[1], 0))
    assert itself["message"] == (
        "The agent scout is at work on this already (scout): it can't be asked again."
        " Do it yourself, or ask another one."
    )
    assert itself["agents"] == ["writer"]
    assert DELEGATE not in tools_of(requests_of(parley, "writer")[0])
    back = json.loads(result_of(requests_of(parley, "writer")[1]))
    assert back["message"].startswith("There is no tool 'agents__delegate' here")


async def test_a_persona_that_is_an_agent_cannot_ask_itself(parley: Parley) -> None:
    await add_agent(parley, "scout")
    await parley.sql("UPDATE personas SET is_default = true")
    play(parley.model, asker=["Hi."])

    await parley.ask("hello")

    assert DELEGATE not in tools_of(requests_of(parley, ASKER)[0])


async def test_an_agent_that_uses_all_its_steps_has_no_result(parley: Parley) -> None:
    await add_agent(parley, "scout", max_iterations=2)
    look = Answer(tool_calls=[LOOK])
    play(parley.model, asker=[Answer(tool_calls=[ask("scout")]), "Sorry."], scout=[look, look, "Half of it."])

    reply = await parley.ask("look around")

    result = reply.tool_calls_made[0].result
    assert (result["error"], result["reason"], result["iterations"]) == (True, "step_limit", 3)
    assert "Reached maximum reasoning steps (2)" in result["message"]
    assert "Half of it." in result["message"]
    assert reply.content == "Sorry."


async def test_a_long_answer_of_an_agent_that_is_cut_is_a_result_that_says_so(parley: Parley) -> None:
    await add_agent(parley, "scout")
    play(
        parley.model,
        asker=[Answer(tool_calls=[ask("scout")]), "Done."],
        scout=[Answer("A long story", finish_reason="length")],
    )

    result = (await parley.ask("look around")).tool_calls_made[0].result

    assert result["finished"] is False
    assert result["result"].startswith("A long story")


async def test_an_agent_whose_model_cannot_be_reached_is_an_error_the_asker_goes_on_with(parley: Parley) -> None:
    await add_agent(parley, "scout")
    fault = Fault(status=400, body={"error": {"message": "no"}})
    play(parley.model, asker=[Answer(tool_calls=[ask("scout")]), "Sorry."], scout=[fault])

    reply = await parley.ask("look around")

    result = reply.tool_calls_made[0].result
    assert (result["error"], result["reason"], result["agent"]) == (True, "models_unavailable", "scout")
    assert (reply.content, reply.error) == ("Sorry.", None)
    assert await parley.value("SELECT status FROM turns WHERE agent = 'scout'") == "failed"


async def test_an_agent_that_hangs_leaves_the_asker_time_to_answer(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    settings = settings.model_copy(update={"turn_deadline_seconds": 8})
    async with open_parley(settings, address, model) as parley:
        # The first call imports litellm, which takes longer than this turn's deadline.
        play(model, asker=["Hi.", Answer(tool_calls=[ask("scout")]), "Nobody answers."], scout=[Fault(hang=True)] * 9)
        await parley.ask("hello")
        await add_agent(parley, "scout")

        reply = await parley.ask("look around")

        result = reply.tool_calls_made[0].result
        assert (result["error"], result["agent"]) == (True, "scout")
        assert result["reason"] in {"deadline", "models_unavailable"}
        assert (reply.content, reply.error) == ("Nobody answers.", None)
        assert await nothing_is_held(parley)


async def test_a_stop_ends_the_agents_with_the_turn_that_asked_them(parley: Parley) -> None:
    await add_agent(parley, "scout")
    await add_agent(parley, "writer")
    hang = [Answer("Never heard.", delay=600)]
    play(
        parley.model,
        asker=[Answer("I will ask.", tool_calls=[ask("scout"), ask("writer")])],
        scout=[Answer(tool_calls=[ask("writer")])],
        writer=hang * 2,
    )
    accepted = await parley.accept("look around")
    await parley.model.until(4)

    assert await request_stop(parley.app.database, Place("test", None, "dm-ann", is_direct=True), user_id=1)
    reply = await parley.app.events.response(accepted.inbox_id)

    assert (reply.error, reply.finished) == ("stopped", False)
    rows = await parley.sql("SELECT agent, status, error FROM turns ORDER BY id")
    assert {tuple(row) for row in rows} == {
        (None, "cancelled", "stopped"), ("scout", "cancelled", "stopped"), ("writer", "cancelled", "stopped"),
    }  # fmt: skip
    assert len(rows) == 4
    assert await nothing_is_held(parley)
    # Calls that have begun are charged.
    assert await parley.value("SELECT count(*) FROM token_logs WHERE purpose = 'delegation'") == 3


async def test_an_admin_may_stop_one_agent_alone(parley: Parley) -> None:
    await add_agent(parley, "scout")

    async def look(body: Any, _number: int) -> Answer:
        await parley.sql("UPDATE turns SET stop_requested = true WHERE agent = 'scout'")
        return Answer("I look.", tool_calls=[LOOK])

    play(parley.model, asker=[Answer(tool_calls=[ask("scout")]), "It was stopped."], scout=look)

    reply = await parley.ask("look around")

    assert reply.content == "It was stopped."
    assert reply.tool_calls_made[0].result["reason"] == "stopped"
    assert await parley.value("SELECT status FROM turns WHERE agent = 'scout'") == "cancelled"


async def test_an_agent_goes_on_when_the_database_is_lost_for_a_moment(parley: Parley, postgres: URL) -> None:
    await add_agent(parley, "scout")

    async def look(_body: Any, _number: int) -> Answer:
        assert await cut_connections(postgres, parley.app.database.address) > 0
        return Answer("Under the mat.")

    play(parley.model, asker=[Answer(tool_calls=[ask("scout")]), "Done."], scout=look)
    accepted = await parley.accept("where is the key?")

    async with asyncio.timeout(60):
        reply = await parley.app.events.response(accepted.inbox_id)

    assert (reply.content, reply.error) == ("Done.", None)
    assert reply.tool_calls_made[0].result == {"result": "Under the mat.", "agent": "scout", "iterations": 1}
    assert await parley.value("SELECT count(*) FROM turns WHERE agent = 'scout'") == 1
    assert await nothing_is_held(parley)


GARBLED_TASKS = (
    '{"agent": ["scout"], "task": {}}',
    '{"agent": "scout"}',
    '{"agent": "\\u0000\\ud800", "task": "x"}',
    "[1",
    '{"x": 1}',
)


async def test_a_garbled_task_is_an_error_that_says_what_would_be_valid(
    parley: Parley, subtests: pytest.Subtests
) -> None:
    await add_agent(parley, "scout")
    for number, garbage in enumerate(GARBLED_TASKS):
        with subtests.test(garbage):
            play(parley.model, asker=[Answer(tool_calls=[("agents__delegate", garbage)]), "Sorry."])

            reply = await parley.ask("ask the scout", user=f"user-{number}")

            result = reply.tool_calls_made[0].result
            assert result["error"] is True
            assert {"parameters", "agents"} & result.keys()
            events = "SELECT count(*) FROM turn_events WHERE name LIKE 'delegation%' AND turn_id = :turn_id"
            assert (reply.content, await parley.value(events, turn_id=reply.turn_id)) == ("Sorry.", 2)


async def test_the_sweeper_ends_agents_that_nobody_waits_for(parley: Parley) -> None:
    await parley.ask("hello")
    await parley.sql(
        "INSERT INTO turns (conversation_id, user_id, parent_turn_id, parent_call_id, agent)"
        " VALUES (1, 1, 1, 'call_1_2', 'scout')"
    )
    await parley.sql(
        "INSERT INTO turns (conversation_id, user_id, parent_turn_id, parent_call_id, agent)"
        " VALUES (1, 1, 2, 'call_2_2', 'writer')"
    )
    await parley.sql("UPDATE users SET tokens_reserved = 700")
    await parley.sql(
        "INSERT INTO budget_reservations (user_id, turn_id, tokens, expires_at)"
        " VALUES (1, 3, 700, now() + interval '1 hour')"
    )

    await until(parley, "SELECT count(*) FROM turns WHERE error = 'orphaned' AND status = 'cancelled'", 2)
    assert await nothing_is_held(parley)
