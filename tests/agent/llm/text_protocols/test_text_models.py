"""Models that know no tool calling, from the message to the reply, over real HTTP."""

import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from shared.db.database import Address
from shared.messages import Place
from shared.settings import Settings
from tests.standins.openai_api import Answer, Fault, OpenAIStub, Reply
from tests.support.house import House, open_house

NATIVE, TAGS, FENCES = "openai/stub", "openai/tags", "openai/fences"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Settings of a house with one model of each protocol."""
    return settings.model_copy(
        update={
            "llm_models": (NATIVE, TAGS),
            "llm_protocols": {TAGS: "tool_tag", FENCES: "fenced", NATIVE: "native"},
            "default_guest_token_budget": 100_000,
        }
    )


@pytest.fixture
async def house(settings: Settings, address: Address, model: OpenAIStub) -> AsyncIterator[House]:
    """A house whose default persona names the model to ask."""
    async with open_house(settings, address, model) as house:
        await house.sql("INSERT INTO personas (name, system_prompt, is_default) VALUES ('p', 'Be kind.', true)")
        yield house
        assert model.refusals == []


async def choose(house: House, model: str) -> None:
    await house.sql("UPDATE personas SET default_model = :model", model=model)


async def memories(house: House) -> list[str]:
    """Return what is remembered of the only person there is."""
    user_id = await house.value("SELECT id FROM users")
    place = Place("test", None, "dm-ann", is_direct=True)
    return [each.content for each in await house.app.memory.of_user(user_id, place, None).list_all()]


def in_words(body: dict[str, Any]) -> list[str]:
    """Return the texts of a request that a model without tool calling is asked, or fail."""
    roles = [message["role"] for message in body["messages"]]
    assert "tools" not in body
    assert roles == ["system", *(("user", "assistant")[index % 2] for index in range(len(roles) - 1))]
    assert all(set(message) == {"role", "content"} for message in body["messages"])
    return [message["content"] for message in body["messages"]]


def tag(server: str, tool: str, **arguments: Any) -> str:
    return f"<tool>{json.dumps({'server_name': server, 'tool_name': tool, 'arguments': arguments})}</tool>"


def fence(tool: str, **arguments: Any) -> str:
    return f"```tool_call\n{json.dumps({'tool': tool, 'arguments': arguments})}\n```"


@pytest.mark.parametrize(
    ("route", "block"),
    [
        (TAGS, tag("knowledge", "remember", content="Ann likes tea")),
        (FENCES, fence("knowledge.remember", content="Ann likes tea")),
        (FENCES, fence("remember", content="Ann likes tea")),
    ],
)
async def test_a_model_that_writes_its_calls_remembers_and_answers(house: House, route: str, block: str) -> None:
    await choose(house, route)
    house.model.play([Answer(f"One moment.\n\n{block}"), Answer("Noted.")])

    reply = await house.hears("remember that I like tea")

    assert (reply.content, reply.finished, reply.iterations, reply.model) == ("Noted.", True, 2, route)
    assert [(call.tool, call.args) for call in reply.tool_calls_made] == [
        ("knowledge.remember", {"content": "Ann likes tea"})
    ]
    assert await memories(house) == ["Ann likes tea"]
    kept = await house.sql("SELECT role, content FROM messages ORDER BY seq")
    assert [row.content for row in kept if row.role == "assistant"] == ["One moment.", "Noted."]
    first, second = (in_words(request.body) for request in house.model.requests)
    assert first[0].startswith("Be kind.\n\nYou can call tools.")
    assert "- knowledge.remember: " in first[0]
    assert second[:2] == first
    assert second[2].startswith("One moment.\n\n")
    assert '<tool_result name="knowledge.remember"' in second[3]


async def test_several_calls_of_one_answer_are_one_wave(house: House) -> None:
    await choose(house, TAGS)
    wave = "\n".join(
        [tag("file_manager", "list_files"), tag("", "list_memories"), tag("knowledge", "recall", query="x")]
    )
    house.model.play([Answer(wave), Answer("Nothing.")])

    reply = await house.hears("what do you have?")

    assert [call.tool for call in reply.tool_calls_made] == [
        "file_manager.list_files",
        "knowledge.list_memories",
        "knowledge.recall",
    ]
    results = in_words(house.model.requests[-1].body)[-1]
    assert results.index("file_manager.list_files") < results.index("knowledge.list_memories")


async def test_one_conversation_goes_from_native_to_text_and_back(house: House) -> None:
    told = {"content": "Ann's dog is called Rex"}
    house.model.play(
        [
            Answer("Sure.", tool_calls=[("knowledge__remember", told)]),
            Answer("I will."),
            Answer(tag("knowledge", "list_memories")),
            Answer("Rex."),
            Answer("", tool_calls=[("knowledge__list_memories", {})]),
            Answer("Still Rex."),
        ]
    )
    replies = []
    for model in (NATIVE, TAGS, NATIVE):
        await choose(house, model)
        replies.append((await house.hears("and my dog?")).content)

    assert replies == ["I will.", "Rex.", "Still Rex."]
    bodies = [request.body for request in house.model.requests]
    past = in_words(bodies[2])
    assert past[2] == f"Sure.\n\n{tag('knowledge', 'remember', **told)}"
    assert past[4] == "I will."
    assert bodies[0]["tools"] == bodies[4]["tools"]
    shown = [message["role"] for message in bodies[4]["messages"]]
    exchange = ["user", "assistant", "tool", "assistant"]
    assert shown == ["system", *exchange, *exchange, "user"]
    assert "<tool>" not in json.dumps(bodies[4]["messages"])


async def test_a_text_model_takes_over_within_a_turn(house: House) -> None:
    def plays(body: dict[str, Any], number: int) -> Reply:
        if body["model"] == "stub":
            return Answer("", tool_calls=[("knowledge__list_memories", {})]) if number == 1 else Fault(401)
        texts = in_words(body)
        assert "<tool_result" in texts[-1]
        return Answer(tag("file_manager", "list_files") if "list_files" not in texts[-1] else "You have nothing.")

    house.model.play(plays)

    reply = await house.hears("what do you have of mine?")

    assert (reply.content, reply.model) == ("You have nothing.", TAGS)
    assert [call.tool for call in reply.tool_calls_made] == ["knowledge.list_memories", "file_manager.list_files"]


@pytest.mark.parametrize("chunk_chars", [1, 5, 1000])
async def test_a_reader_of_the_stream_sees_no_block_and_no_thinking(house: House, chunk_chars: int) -> None:
    await choose(house, TAGS)
    block = tag("file_manager", "list_files")
    house.model.play(
        [
            Answer(f"<think>Files, {block}?</think>\n\nLooking.\n\n{block}\n", chunk_chars=chunk_chars),
            Answer("<reasoning>None.</reasoning>No files, not `<tool>` either.", chunk_chars=chunk_chars),
        ]
    )

    events = await house.reads("list my files")

    streamed = "".join(event.payload["text"] for event in events if event.name == "text_delta")
    assert streamed == "Looking.\n\nNo files, not `<tool>` either."
    names = [event.name for event in events if event.name != "text_delta"]
    assert names[2:] == ["thinking", "tool_call", "tool_result", "thinking", "message", "turn_complete"]
    thoughts = [event.payload["text"] for event in events if event.name == "thinking"]
    assert thoughts == [f"Files, {block}?", "None."]
    assert await house.value("SELECT count(*) FROM messages WHERE content LIKE '%None.%'") == 0


@pytest.mark.parametrize("wants_stream", [False, True])
@pytest.mark.parametrize(
    "answer", [Answer("<think>A greeting.</think>\n\nHello."), Answer("Hello.", reasoning="A greeting.", chunk_chars=3)]
)
async def test_thinking_of_a_native_model_is_an_event_and_no_answer(
    house: House, answer: Answer, wants_stream: bool
) -> None:
    house.model.play([answer])

    accepted = await house.accepts("hello", wants_stream=wants_stream)
    events = {event.name: event.payload async for event in house.app.events.follow(accepted.inbox_id)}

    assert (events["message"]["content"], events["thinking"]["text"]) == ("Hello.", "A greeting.")


@pytest.mark.parametrize(
    "block",
    [
        '<tool>{"server_name": "knowledge", "tool_name": "remember", "arguments": {"content": "x",}}</tool>',
        "<tool>{'server_name': 'knowledge', 'tool_name': 'remember', 'arguments': {}}</tool>",
        '<tool>{"tool_name": "remember", "content": "x"}</tool>',
        tag("knowledge", "remember", content="x", user_id=7),
    ],
)
async def test_a_malformed_block_is_an_error_the_model_can_read_and_mend(house: House, block: str) -> None:
    await choose(house, TAGS)
    house.model.play([Answer(block), Answer(tag("knowledge", "remember", content="x")), Answer("Done.")])

    reply = await house.hears("remember x")

    assert reply.content == "Done."
    first, second = reply.tool_calls_made
    assert first.result["error"] is True
    assert "content" in first.result["parameters"]["properties"]
    assert "error" not in second.result
    told = in_words(house.model.requests[1].body)[-1]
    assert ("was not run.)" in told) == ("user_id" not in block)


async def test_an_unknown_tool_is_answered_with_those_there_are(house: House) -> None:
    await choose(house, FENCES)
    house.model.play([Answer('```delegate\n{"agent": "clerk", "task": "count"}\n```'), Answer("I can't.")])

    reply = await house.hears("let the clerk count")

    [call] = reply.tool_calls_made
    assert (call.tool, call.args) == ("delegate", {"agent": "clerk", "task": "count"})
    assert "knowledge__remember" in call.result["available_tools"]


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
async def test_a_block_that_was_cut_never_runs(house: House, finish_reason: str) -> None:
    await choose(house, TAGS)
    whole, cut = tag("knowledge", "remember", content="x"), tag("knowledge", "remember", content="y")[:-9]
    house.model.play([Answer(f"Noting. {whole} {cut}", finish_reason=finish_reason)])

    reply = await house.hears("remember x and y")

    assert reply.content.startswith("Noting.\n\n[")
    assert (reply.finished, reply.tool_calls_made) == (False, ())
    assert await memories(house) == []


@pytest.mark.parametrize("is_clean", [False, True])
async def test_a_stream_cut_within_a_block_is_asked_again(house: House, is_clean: bool) -> None:
    await choose(house, TAGS)
    answer = Answer(f"Noting. {tag('knowledge', 'remember', content='x')}", chunk_chars=8)
    house.model.play([Fault(cut_after_chunks=9, is_clean=is_clean, answer=answer), Answer("Once more.")])

    events = await house.reads("remember x")

    assert await memories(house) == []
    assert [event.payload["content"] for event in events if event.name == "message"] == ["Once more."]
    assert not any("tool" in event.payload["text"] for event in events if event.name == "text_delta")


async def test_the_last_answer_is_asked_for_in_words_too(house: House) -> None:
    await choose(house, TAGS)
    await house.sql("UPDATE personas SET max_iterations = 1")
    house.model.play(
        [Answer(tag("file_manager", "list_files")), Answer(f"That is all. {tag('file_manager', 'list_files')}")]
    )

    reply = await house.hears("go on")

    assert reply.content == "Reached maximum reasoning steps (1)\n\nThat is all."
    assert len(reply.tool_calls_made) == 1
    last = in_words(house.model.requests[-1].body)
    assert last[0] == "Be kind."
    assert "no further tools" in last[-1]


async def test_the_prompt_of_a_text_model_begins_with_the_same_bytes(house: House) -> None:
    await choose(house, FENCES)
    house.model.play(lambda _body, number: Answer(fence("list_files") if number % 2 else "Nothing."))
    for number in range(3):
        await house.hears(f"message {number}")

    bodies = [json.dumps(request.body["messages"]) for request in house.model.requests]
    assert bodies[1].startswith(bodies[0][:-1])
    ends = [json.dumps(request.body["messages"][:-1]) for request in house.model.requests]
    assert all(later.startswith(earlier[:-1]) for earlier, later in pairwise(ends[::2]))
