"""Planner mode over real HTTP: the model answers with plans; everything else is as in native mode."""

import json
from itertools import pairwise
from typing import Any

import pytest

from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import Answer, Fault, OpenAIStub, Reply
from tests.support.delegating import add_agent, play
from tests.support.documents import document
from tests.support.parley import Parley, open_parley
from tests.support.planning import call, plan, results_in

LIST = call("file_manager.list_files", "f")

pytestmark = [
    pytest.mark.settings(planner_percent=100, default_guest_token_budget=1_000_000),
    pytest.mark.usefixtures("unrefused"),
]


async def test_a_plan_without_tools_is_the_answer(parley: Parley, model: OpenAIStub) -> None:
    model.play([plan(response="Hi Ann.")])

    reply = await parley.ask("hello")

    assert (reply.content, reply.finished, reply.iterations, reply.error) == ("Hi Ann.", True, 1, None)
    request = model.requests[0].body
    assert request["temperature"] == 0
    assert request["response_format"]["type"] == "json_schema"
    assert "tools" not in request
    assert "- knowledge.remember: " in request["messages"][0]["content"]
    rows = await parley.sql("SELECT role, content, plan FROM messages ORDER BY seq")
    assert [tuple(row) for row in rows] == [("user", "hello", None), ("assistant", "Hi Ann.", None)]
    assert [tuple(row) for row in await parley.sql("SELECT loop_mode, waves, iterations FROM turns")] == [
        ("planner", 0, 1)
    ]


async def test_tools_run_and_results_are_shown_with_the_ids_of_the_plan(parley: Parley, model: OpenAIStub) -> None:
    model.play(
        [
            plan(call("knowledge.remember", "m", content="Ann likes tea"), call("file_manager__list_files", "f")),
            plan(response="Noted."),
        ]
    )

    reply = await parley.ask("remember that I like tea")

    assert (reply.content, reply.iterations) == ("Noted.", 2)
    assert [(call.tool, call.args) for call in reply.tool_calls_made] == [
        ("knowledge.remember", {"content": "Ann likes tea"}),
        ("file_manager.list_files", {}),
    ]
    rows = await parley.sql("SELECT seq, role, content, tool_name FROM messages ORDER BY seq")
    assert [(row.seq, row.role, row.tool_name) for row in rows] == [
        (0, "user", None),
        (1, "assistant", None),
        (2, "tool_call", "knowledge.remember"),
        (3, "tool_call", "file_manager.list_files"),
        (4, "tool_result", "knowledge.remember"),
        (5, "tool_result", "file_manager.list_files"),
        (6, "assistant", None),
    ]
    messages = model.requests[1].body["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert json.loads(messages[2]["content"])["tools"][0]["id"] == "m"
    assert '<tool_result name="knowledge.remember" id="m">' in messages[3]["content"]
    assert messages[:2] == model.requests[0].body["messages"]


async def test_the_plan_on_the_page_runs(parley: Parley, model: OpenAIStub) -> None:
    model.play([document("docs/planner.md").blocks("json")[0].text])

    reply = await parley.ask("a file about next weekend, please")

    days, file = reply.tool_calls_made
    assert (reply.content, reply.iterations) == ("Here is your file.", 1)
    assert file.args["content"] == f"From {days.result['start']} to {days.result['end']}"
    assert [file.file_id for file in reply.files] == [file.result["file_id"]]


def streamed(events: list[Any]) -> str:
    """Return the text that a follower has in the end, without withdrawn pieces."""
    text = ""
    for event in events:
        if event.name == "text_delta":
            text = event.payload["text"] if event.payload.get("reset") else text + event.payload["text"]
    return text


async def test_a_plan_that_is_done_runs_its_tools_first_and_its_response_needs_no_further_call(
    parley: Parley, model: OpenAIStub
) -> None:
    tools = (call("knowledge.remember", content="Ann likes tea"),)
    model.play([plan(*tools, status="done", response="I will remember that.")])

    reply = await parley.ask("remember that I like tea")

    assert (reply.content, reply.finished, reply.iterations) == ("I will remember that.", True, 1)
    assert [call.tool for call in reply.tool_calls_made] == ["knowledge.remember"]
    assert len(model.requests) == 1
    assert await parley.value("SELECT waves FROM turns") == 1
    # The response of a plan whose tools had not run yet is not in the transcript.
    answers = await parley.sql("SELECT content FROM messages WHERE role = 'assistant' ORDER BY seq")
    assert [row.content for row in answers] == ["", "I will remember that."]
    assert await parley.value("SELECT tokens_reserved FROM users") == 0


async def test_a_response_is_not_sent_when_a_tool_of_its_plan_has_failed(parley: Parley, model: OpenAIStub) -> None:
    model.play(
        [plan(call("knowledge.forget", memory_id=9), status="done", response="Forgotten."), plan(response="No.")]
    )

    reply = await parley.ask("forget it")

    assert (reply.content, reply.iterations) == ("No.", 2)
    assert results_in(model.requests[1].body)["a"]["error"] is True


async def test_a_plan_that_is_done_without_a_response_is_answered_when_its_results_are_there(
    parley: Parley, model: OpenAIStub
) -> None:
    model.play([plan(LIST, status="done"), plan(response="You have no files.")])

    reply = await parley.ask("list my files")

    assert (reply.content, reply.iterations) == ("You have no files.", 2)


async def test_a_reader_sees_the_response_grow_and_never_the_plan(parley: Parley, model: OpenAIStub) -> None:
    answers = "You have no files at all, I am afraid. " * 5
    model.play(
        [
            Answer(plan(LIST, response="Let me see.", reasoning="Files are asked for."), chunk_chars=7),
            Answer(plan(response=answers, reasoning="There are none."), chunk_chars=7, chunk_delay=0.01),
        ]
    )

    events = await parley.follow("list my files")

    names = [event.name for event in events if event.name != "text_delta"]
    assert names == [
        "user_message",
        "turn_started",
        "thinking",
        "tool_call",
        "tool_result",
        "thinking",
        "message",
        "turn_complete",
    ]
    assert [event.payload["text"] for event in events if event.name == "thinking"] == [
        "Files are asked for.",
        "There are none.",
    ]
    # A reader who is behind gets the end without the last pieces; the message has all of it.
    assert answers.startswith(streamed(events))
    assert [event.payload["content"] for event in events if event.name == "message"] == [answers.strip()]
    assert len([event for event in events if event.name == "text_delta"]) > 2
    assert not any("{" in event.payload["text"] for event in events if event.name == "text_delta")


PLANS_OF_ONE_ANSWER = (
    plan(response="Hello."),
    json.dumps({"response": "Hello.", "tools": [], "status": "done"}),
    json.dumps({"status": "done", "response": "Hello."}),
    json.dumps({"status": "done", "response": "  Hello.\n", "tools": None, "reasoning": None, "mood": "good"}),
    f"<think>A greeting {{}}?</think>\n```json\n{plan(response='Hello.')}\n```\nThat is my plan.",
    plan(response="Hello.", status="continue"),
)


async def test_a_plan_is_found_however_it_is_written(
    parley: Parley, model: OpenAIStub, subtests: pytest.Subtests
) -> None:
    for text in PLANS_OF_ONE_ANSWER:
        with subtests.test(text):
            model.play([Answer(text, chunk_chars=5)])

            events = await parley.follow("hello")

            assert [event.payload["content"] for event in events if event.name == "message"] == ["Hello."]
            assert streamed(events) == "Hello."


async def test_a_withdrawn_text_is_removed_for_the_follower(parley: Parley, model: OpenAIStub) -> None:
    broken = plan(response="This is what I would say, if I could write JSON.")[:-1] + " and more"
    model.play([Answer(broken, chunk_chars=6, chunk_delay=0.02), plan(response="Hello.")])

    events = await parley.follow("hello")

    assert streamed(events) == "Hello."
    result = "".join(event.payload["text"] for event in events if event.name == "text_delta")
    assert result.startswith("This is what")


async def test_the_prompt_begins_with_the_same_bytes_in_every_call_and_turn(parley: Parley, model: OpenAIStub) -> None:
    model.play(lambda body, _number: Answer(plan(response="None.") if results_in(body) else plan(LIST)))
    for number in range(3):
        await parley.ask(f"message {number}")

    prompts = [request.body["messages"] for request in model.requests]
    assert len({messages[0]["content"] for messages in prompts}) == 1
    assert all(second[: len(first)] == first for first, second in zip(prompts[::2], prompts[1::2], strict=True))
    turns = [json.dumps(messages[:-1]) for messages in prompts[::2]]
    assert all(later.startswith(earlier[:-1]) for earlier, later in pairwise(turns))


async def test_a_persona_chooses_its_mode_and_a_conversation_may_change_it(parley: Parley, model: OpenAIStub) -> None:
    def plays(body: dict[str, Any], _number: int) -> Reply:
        if "tools" not in body:
            return Answer(plan(response="Planned.") if results_in(body) else plan(LIST))
        if body["messages"][-1]["role"] == "tool":
            return Answer("Called.")
        return Answer(tool_calls=[("file_manager__list_files", {})])

    model.play(plays)
    await parley.sql("INSERT INTO personas (name, system_prompt, is_default) VALUES ('p', 'Be kind.', true)")
    answers = []
    for mode in ("planner", "native", "planner"):
        await parley.sql("UPDATE personas SET loop_mode = :mode", mode=mode)
        answers.append((await parley.ask("list my files")).content)

    assert answers == ["Planned.", "Called.", "Planned."]
    assert [row[0] for row in await parley.sql("SELECT loop_mode FROM turns ORDER BY id")] == [
        "planner",
        "native",
        "planner",
    ]
    native, last = model.requests[3].body["messages"], model.requests[-1].body["messages"]
    assert [message["role"] for message in native][:5] == ["system", "user", "assistant", "tool", "assistant"]
    assert native[4]["content"] == "Planned."
    # A planning model is shown its earlier answers as plans.
    plans = [json.loads(message["content"]) for message in last if message["role"] == "assistant"]
    assert [plan["status"] for plan in plans] == ["continue", "done", "continue", "done", "continue"]
    assert [plan["response"] for plan in plans] == ["", "Planned.", "", "Called.", ""]


async def test_a_conversation_keeps_its_mode_as_the_share_grows(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    model.play(lambda body, _number: Answer("native" if "response_format" not in body else plan(response="planner")))
    channels = [f"dm-{number}" for number in range(20)]
    rounds: list[list[str]] = []
    for percent in (0, 30, 30, 60, 100):
        configuration = settings.model_copy(update={"planner_percent": percent})
        async with open_parley(configuration, address, model) as parley:
            rounds.append([(await parley.ask("hello", channel=channel)).content for channel in channels])

    none, some, same, more, every = ([mode == "planner" for mode in modes] for modes in rounds)
    assert (any(none), all(every), some == same) == (False, True, True)
    assert 0 < sum(some) < sum(more) < len(channels)
    assert all(after or not before for before, after in zip(some, more, strict=True))


async def test_the_offline_model_answers_as_it_always_does(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    offline = settings.model_copy(update={"llm_models": ()})
    async with open_parley(offline, address, model) as parley:
        reply = await parley.ask("what is 12*(3+4)?")

        assert reply.content == "12*(3+4) = 84"
        assert await parley.value("SELECT loop_mode FROM turns") == "native"


async def test_scripted_answers_may_be_plans_calls_or_blocks(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    block = '<tool>{"server_name": "file_manager", "tool_name": "list_files", "arguments": {}}</tool>'
    script = [
        plan(LIST),
        {"content": "And now:", "tool_calls": [{"name": "knowledge.list_memories"}]},
        f"Once more. {block}",
        "This is no plan.",
        plan(response="That is all."),
    ]
    scripted = settings.model_copy(update={"debug_mock_responses": json.dumps(script)})
    async with open_parley(scripted, address, model) as parley:
        reply = await parley.ask("hello")

        assert (reply.content, reply.iterations, reply.model) == ("That is all.", 5, "mock")
        assert [call.tool for call in reply.tool_calls_made] == [
            "file_manager.list_files",
            "knowledge.list_memories",
            "file_manager.list_files",
        ]
        assert await parley.value("SELECT loop_mode FROM turns") == "planner"


async def test_a_model_of_a_text_protocol_plans_too(settings: Settings, address: Address, model: OpenAIStub) -> None:
    configuration = settings.model_copy(update={"llm_protocols": {"openai/stub": "tool_tag"}})
    proposal = plan(call("knowledge.remember", content="a <tool> is {no} block"))
    model.play([proposal, plan(response="Noted, with `<tool>{}</tool>`.")])
    async with open_parley(configuration, address, model) as parley:
        reply = await parley.ask("remember this")

    assert reply.content == "Noted, with `<tool>{}</tool>`."
    assert reply.tool_calls_made[0].args == {"content": "a <tool> is {no} block"}
    roles = [message["role"] for message in model.requests[-1].body["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert "<tool_result" in model.requests[-1].body["messages"][-1]["content"]


async def test_a_server_without_json_schema_gets_a_simpler_format_and_that_is_remembered(
    parley: Parley, model: OpenAIStub
) -> None:
    def picky(body: dict[str, Any], _number: int) -> Reply:
        if body.get("response_format", {}).get("type") == "json_schema" or "temperature" in body:
            return Fault(400, body={"error": {"message": "response_format: not supported", "type": "bad_request"}})
        return Answer(plan(response="Hello."))

    model.play(picky)

    replies = [(await parley.ask("hello")).content for _ in range(2)]

    assert replies == ["Hello.", "Hello."]
    forms = [
        (request.body.get("response_format", {}).get("type"), request.body.get("temperature"))
        for request in model.requests
    ]
    assert forms == [("json_schema", 0), ("json_object", 0), (None, 0), (None, None), (None, None)]
    assert await parley.value("SELECT count(*) FROM token_logs") == 2


async def test_a_request_refused_in_every_response_format_is_reported_once(parley: Parley, model: OpenAIStub) -> None:
    model.play(lambda _body, _number: Fault(400, body={"error": {"message": "no", "type": "bad_request"}}))

    reply = await parley.ask("hello")

    assert reply.error == "models_unavailable"
    assert len(model.requests) == 4


async def test_a_plan_hands_a_task_to_an_agent_that_plans_too_and_goes_on_with_its_result(
    parley: Parley, model: OpenAIStub
) -> None:
    await add_agent(parley, "scout")
    await parley.sql("UPDATE personas SET loop_mode = 'planner'")
    asks = call("agents.delegate", "s", agent="scout", task="Find the key.")
    notes = call("knowledge.remember", "n", "s", content="Where the key is: $s.result")
    play(
        model,
        asker=[plan(asks, notes, status="done", response="Found and noted.")],
        scout=[plan(LIST), plan(response="Under the mat.")],
    )

    reply = await parley.ask("where is the key?")

    assert (reply.content, reply.iterations) == ("Found and noted.", 1)
    assert reply.tool_calls_made[1].args == {"content": "Where the key is: Under the mat."}
    rows = await parley.sql("SELECT agent, loop_mode, waves, iterations FROM turns ORDER BY id")
    assert [tuple(row) for row in rows] == [(None, "planner", 2, 1), ("scout", "planner", 1, 2)]
