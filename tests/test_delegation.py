"""Delegation: results, cost and events, in every way in which a model can call it."""

import asyncio
import json
from typing import Any

import pytest

from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.delegating import ASKER, add_agent, ask, events_of, play, requests_of, tools_of
from tests.support.parley import Parley, open_parley

DELEGATE = "agents__delegate"

pytestmark = pytest.mark.settings(default_guest_token_budget=100_000)


async def test_an_agent_does_a_task_and_the_asker_goes_on_with_its_result(parley: Parley) -> None:
    await add_agent(parley, "scout")
    play(
        parley.model,
        asker=[Answer("One moment.", tool_calls=[ask("scout", "Find the key.")]), "The scout says: under the mat."],
        scout=[Answer(tool_calls=[("calculator__calculate", {"expression": "6*7"})]), "Under the mat."],
    )

    reply = await parley.ask("where is the key?")

    assert (reply.content, reply.iterations, reply.finished, reply.error) == (
        "The scout says: under the mat.", 2, True, None,
    )  # fmt: skip
    assert [(call.tool, call.args, call.result) for call in reply.tool_calls_made] == [
        (
            "agents.delegate",
            {"agent": "scout", "task": "Find the key."},
            {"result": "Under the mat.", "agent": "scout", "iterations": 2},
        )
    ]
    below = await parley.sql("SELECT agent, parent_turn_id, parent_call_id, status, iterations FROM turns WHERE id = 2")
    assert [tuple(row) for row in below] == [("scout", 1, "call_1_2", "answered", 2)]


async def test_an_agent_sees_its_own_prompt_and_the_task_alone(parley: Parley) -> None:
    await add_agent(parley, "scout")
    play(
        parley.model, asker=["Hi Ann.", Answer(tool_calls=[ask("scout", "Find the key.")]), "Done."], scout=["Nowhere."]
    )
    await parley.ask("my name is Ann")
    await parley.ask("where is the key?")

    (body,) = requests_of(parley, "scout")
    system, task = (message["content"] for message in body["messages"])
    assert system.startswith("You are scout.\n\nAnother agent has handed you this task.")
    assert task.startswith("Find the key.\n\n<context>\nNow: ")
    assert "Ann" not in json.dumps(body)
    # It is the only agent, and can't ask itself.
    assert DELEGATE not in tools_of(body)


async def test_what_an_agent_says_and_does_stays_out_of_the_conversation(parley: Parley) -> None:
    await add_agent(parley, "scout")
    play(
        parley.model,
        asker=[Answer(tool_calls=[ask("scout")]), "Done.", "Still here."],
        scout=[Answer("Let me see.", tool_calls=[("knowledge__list_memories", {})]), "Nothing there."],
    )
    first = await parley.ask("look around")
    await parley.ask("and now?")

    messages = requests_of(parley, ASKER)[-1]["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert "Let me see." not in json.dumps(messages)
    steps = await parley.sql("SELECT role, content, conversation_id FROM messages WHERE turn_id = 2 ORDER BY seq")
    assert [row.role for row in steps] == ["user", "assistant", "tool_call", "tool_result", "assistant"]
    assert {row.conversation_id for row in steps} == {None}
    assert await parley.value("SELECT count(*) FROM outbox") == 2
    assert first.turn_id == 1


async def test_the_ledger_has_every_call_of_an_agent_under_its_own_turn_and_the_person_pays(parley: Parley) -> None:
    await add_agent(parley, "scout")
    play(parley.model, asker=[Answer(tool_calls=[ask("scout")]), "Done."], scout=["Found."])

    reply = await parley.ask("look around")

    rows = await parley.sql(
        "SELECT turn_id, purpose, user_id, conversation_id, input_tokens + output_tokens AS tokens"
        " FROM token_logs ORDER BY id"
    )
    assert [tuple(row)[:4] for row in rows] == [(1, "answer", 1, 1), (2, "delegation", 1, 1), (1, "answer", 1, 1)]
    assert reply.usage.total == sum(row.tokens for row in rows)
    balances = await parley.sql("SELECT tokens_used_this_month, tokens_reserved FROM users")
    assert [tuple(row) for row in balances] == [(reply.usage.total, 0)]
    assert await parley.value("SELECT count(*) FROM budget_reservations") == 0


async def test_followers_get_request_and_response_events_in_order(parley: Parley) -> None:
    await add_agent(parley, "scout")
    play(
        parley.model,
        asker=[Answer(tool_calls=[ask("scout", "Find the key.")]), "Done."],
        scout=[Answer(tool_calls=[("knowledge__list_memories", {})]), "Under the mat."],
    )

    followed = await parley.follow("where is the key?")

    result = [(event.name, event.payload) for event in followed if event.name != "text_delta"]
    assert [name for name, _ in result] == [
        "user_message", "turn_started", "tool_call", "delegation_request", "delegation_response", "tool_result",
        "message", "turn_complete",
    ]  # fmt: skip
    assert result == await events_of(parley, 1)
    assert result[3][1] == {"id": "call_1_2", "agent": "scout", "task": "Find the key."}
    response = result[4][1]
    usage = response.pop("usage")
    assert response == {"id": "call_1_2", "agent": "scout", "result": "Under the mat.", "iterations": 2}
    below = "SELECT sum(input_tokens) FROM token_logs WHERE purpose = 'delegation'"
    assert usage["input_tokens"] == await parley.value(below)
    ledger = "SELECT sum(input_tokens), sum(output_tokens) FROM token_logs"
    of_turn = result[-1][1]["usage"]
    assert [(of_turn["input_tokens"], of_turn["output_tokens"])] == [tuple(row) for row in await parley.sql(ledger)]
    # The agent's own events belong to its own turn, and its text is not streamed as the answer.
    assert [name for name, _ in await events_of(parley, 2)] == [
        "user_message", "turn_started", "tool_call", "tool_result", "message", "turn_complete",
    ]  # fmt: skip
    deltas = "".join(event.payload["text"] for event in followed if event.name == "text_delta")
    assert deltas == "Done."


@pytest.mark.parametrize("protocol", ["tool_tag", "fenced"])
async def test_a_model_without_tool_calling_asks_with_a_delegate_block(
    settings: Settings, address: Address, model: OpenAIStub, protocol: str
) -> None:
    settings = settings.model_copy(update={"llm_protocols": {"openai/stub": protocol}})
    async with open_parley(settings, address, model) as parley:
        await add_agent(parley, "scout")
        block = json.dumps({"agent": "scout", "task": "Find the key."})
        play(model, asker=[f"One moment.\n\n```delegate\n{block}\n```", "Under the mat."], scout=["Under the mat."])

        reply = await parley.ask("where is the key?")

        assert reply.content == "Under the mat."
        assert [(call.tool, call.result["result"]) for call in reply.tool_calls_made] == [
            ("agents.delegate", "Under the mat.")
        ]
        first = requests_of(parley, ASKER)[0]["messages"][0]["content"]
        assert '```delegate\n{"agent": "AGENT", "task": "TASK"}\n```' in first
        assert "- scout: Knows about scout things." in first
        assert model.refusals == []


def plan(*tools: tuple[str, str, str, list[str]], response: str = "") -> str:
    """Return a plan that delegates tasks: id, agent, task, needs."""
    planned = [
        {"id": name, "tool": "agents.delegate", "args": {"agent": agent, "task": task}, "needs": needs}
        for name, agent, task, needs in tools
    ]
    return json.dumps({"status": "continue" if tools else "done", "tools": planned, "response": response})


async def test_plans_hand_tasks_to_agents_and_agents_answer_with_plans(parley: Parley) -> None:
    await parley.sql("INSERT INTO personas (name, system_prompt, is_default) VALUES ('p', 'Be kind.', true)")
    await add_agent(parley, "scout")
    await add_agent(parley, "writer")
    await parley.sql("UPDATE personas SET loop_mode = 'planner' WHERE name IN ('p', 'scout')")
    proposal = plan(("a", "scout", "Find the key.", []), ("b", "writer", "Note: ${a.result}", ["a"]))
    play(
        parley.model,
        asker=[proposal, plan(response="Noted.")],
        scout=[plan(("c", "writer", "A riddle, please.", [])), plan(response="Under the mat.")],
        writer=["What has a bed and never sleeps?", "Written."],
    )

    reply = await parley.ask("where is the key? write it down")

    assert (reply.content, reply.error) == ("Noted.", None)
    assert [(call.args["task"], call.result["result"]) for call in reply.tool_calls_made] == [
        ("Find the key.", "Under the mat."), ("Note: Under the mat.", "Written."),
    ]  # fmt: skip
    rows = await parley.sql("SELECT agent, loop_mode, waves, iterations FROM turns ORDER BY id")
    assert [tuple(row) for row in rows] == [
        (None, "planner", 2, 2), ("scout", "planner", 1, 2), ("writer", "native", 0, 1), ("writer", "native", 0, 1),
    ]  # fmt: skip
    names = [name for name, _ in await events_of(parley, 1) if name.startswith("delegation")]
    assert names == ["delegation_request", "delegation_response"] * 2
    assert await parley.value("SELECT tokens_reserved FROM users") == 0


async def test_scripted_answers_are_played_in_order_through_asker_and_agents(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    script = [
        '```delegate\n{"agent": "scout", "task": "Find the key."}\n```',
        {"tool_calls": [{"name": "delegate", "arguments": {"agent": "writer", "task": "Write it down."}}]},
        "Written.",
        "Under the mat.",
        "Found.",
        '```delegate\n{"agent": "scout", "task": "1"}\n```\n```delegate\n{"agent": "writer", "task": "2"}\n```',
        "One.",
        "Two.",
        "That is all.",
        "The end.",
    ]
    settings = settings.model_copy(update={"debug_mock_responses": json.dumps(script)})
    async with open_parley(settings, address, model) as parley:
        await add_agent(parley, "scout")
        await add_agent(parley, "writer")

        first = await parley.ask("where is the key?")
        second = await parley.ask("and both of you?")
        third = await parley.ask("anything else?")

        assert first.content == "Found."
        assert first.tool_calls_made[0].result == {"result": "Under the mat.", "agent": "scout", "iterations": 3}
        assert [call.result["result"] for call in second.tool_calls_made] == ["One.", "Two."]
        assert (second.content, third.content) == ("That is all.", "The end.")


async def test_an_agent_answers_by_its_own_script_whatever_models_the_others_have(parley: Parley) -> None:
    script = [{"tool_calls": [{"name": "calculator.calculate", "arguments": {"expression": "6*7"}}]}, "Forty-two."]
    await add_agent(parley, "scout")
    await add_agent(parley, "writer")
    env = json.dumps({"DEBUG_MOCK_RESPONSES": json.dumps(script)})
    await parley.sql("UPDATE agents SET env = CAST(:env AS jsonb) WHERE name = 'scout'", env=env)
    play(
        parley.model,
        asker=[Answer(tool_calls=[ask("scout"), ask("writer")]), "Both.", Answer(tool_calls=[ask("scout")]), "Again."],
        writer=["Written."],
    )

    first, second = await parley.ask("how many?"), await parley.ask("and now?")

    assert [call.result["result"] for call in first.tool_calls_made] == ["Forty-two.", "Written."]
    # Each task begins at the beginning of the script.
    assert [call.result["result"] for call in second.tool_calls_made] == ["Forty-two."]
    assert requests_of(parley, "scout") == []
    rows = await parley.sql(
        "SELECT DISTINCT agent, log.model FROM token_logs AS log JOIN turns ON turns.id = turn_id WHERE agent <> ''"
    )
    assert {tuple(row) for row in rows} == {("scout", "mock"), ("writer", "openai/stub")}


async def test_a_script_of_an_agent_leaves_the_list_of_the_installation_to_the_others(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    script = [
        {"tool_calls": [{"name": "agents.delegate", "arguments": {"agent": "scout", "task": "Find the key."}}]},
        "Found.",
        "Nothing else.",
        "The end.",
    ]
    settings = settings.model_copy(update={"debug_mock_responses": json.dumps(script)})
    async with open_parley(settings, address, model) as parley:
        await add_agent(parley, "scout")
        await parley.sql("""UPDATE agents SET env = '{"DEBUG_MOCK_RESPONSES": "[\\"Under the mat.\\"]"}'""")

        first, second = await parley.ask("where is the key?"), await parley.ask("anything else?")

    assert first.tool_calls_made[0].result["result"] == "Under the mat."
    assert (first.content, second.content) == ("Found.", "Nothing else.")


async def test_a_wrong_script_is_told_to_the_asker_and_costs_nothing(parley: Parley) -> None:
    await add_agent(parley, "scout")
    await parley.sql("""UPDATE agents SET env = '{"DEBUG_MOCK_RESPONSES": "[1]"}'""")
    play(parley.model, asker=[Answer(tool_calls=[ask("scout")]), "It has no script."])

    reply = await parley.ask("where is the key?")

    assert "The agent scout has a wrong script: DEBUG_MOCK_RESPONSES is wrong at 0" in str(
        reply.tool_calls_made[0].result
    )
    assert (reply.content, reply.finished) == ("It has no script.", True)


async def test_an_agent_may_ask_only_its_peers(parley: Parley) -> None:
    for name in ("scout", "writer", "clerk"):
        await add_agent(parley, name)
    await parley.sql("""UPDATE agents SET peers = '["writer"]' WHERE name = 'scout'""")
    await parley.sql("UPDATE agents SET peers = '[]' WHERE name = 'writer'")
    play(
        parley.model,
        asker=[Answer(tool_calls=[ask("scout")]), "Done."],
        scout=[Answer(tool_calls=[ask("clerk"), ask("writer")]), "Found."],
        writer=["Written."],
    )

    reply = await parley.ask("where is the key?")

    assert reply.content == "Done."
    answers = [
        message["content"] for message in requests_of(parley, "scout")[1]["messages"] if message["role"] == "tool"
    ]
    assert json.loads(answers[0])["agents"] == ["writer"]
    assert "Written." in answers[1]
    assert DELEGATE not in tools_of(requests_of(parley, "writer")[0])


async def test_agents_asked_in_one_answer_run_concurrently_with_results_in_the_models_order(parley: Parley) -> None:
    await add_agent(parley, "scout")
    await add_agent(parley, "writer")
    both = asyncio.Barrier(2)

    async def slow(_body: Any, _number: int) -> Answer:
        await both.wait()
        return Answer("Written.")

    async def fast(_body: Any, _number: int) -> Answer:
        await both.wait()
        return Answer("Found.")

    play(parley.model, asker=[Answer(tool_calls=[ask("writer"), ask("scout")]), "Both."], writer=slow, scout=fast)

    reply = await parley.ask("everybody!")

    assert [call.result["result"] for call in reply.tool_calls_made] == ["Written.", "Found."]
    assert parley.model.peak == 2
    assert await parley.value("SELECT tokens_reserved FROM users") == 0


async def test_an_agent_asked_twice_has_two_turns(parley: Parley) -> None:
    await add_agent(parley, "scout")
    play(
        parley.model,
        asker=[Answer(tool_calls=[ask("scout", "First.")]), Answer(tool_calls=[ask("scout", "Second.")]), "Done."],
        scout=["One.", "Two."],
    )

    reply = await parley.ask("twice, please")

    assert [call.result["result"] for call in reply.tool_calls_made] == ["One.", "Two."]
    assert await parley.value("SELECT count(*) FROM turns WHERE agent = 'scout'") == 2


async def test_a_file_that_an_agent_makes_comes_with_the_reply(parley: Parley) -> None:
    await add_agent(parley, "writer")
    document = ("file_manager__create_document", {"title": "Minutes", "content": "All agreed."})
    play(
        parley.model,
        asker=[Answer(tool_calls=[ask("writer")]), "Here."],
        writer=[Answer(tool_calls=[document]), "Written."],
    )

    reply = await parley.ask("write the minutes")

    assert [file.filename for file in reply.files] == ["Minutes.md"]
    assert reply.tool_calls_made[0].result["files"][0]["file_id"] == reply.files[0].file_id
    rows = await parley.sql("SELECT user_id, conversation_id, turn_id FROM file_records")
    assert [tuple(row) for row in rows] == [(1, 1, 2)]
