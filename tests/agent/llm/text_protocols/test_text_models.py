"""Models that know no tool calling, from the message to the reply, over real HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from shared.db.database import Address
from shared.messages import Place
from shared.settings import Settings
from tests.standins.openai_api import Answer, Fault, OpenAIStub, Reply
from tests.support.parley import Parley, open_parley

NATIVE, TAGS, FENCES = "openai/stub", "openai/tags", "openai/fences"

pytestmark = pytest.mark.settings(
    llm_models=(NATIVE, TAGS),
    llm_protocols={TAGS: "tool_tag", FENCES: "fenced", NATIVE: "native"},
    default_guest_token_budget=100_000,
)


@pytest.fixture
async def parley(settings: Settings, address: Address, model: OpenAIStub) -> AsyncIterator[Parley]:
    """A running Parley whose default persona names the model to ask."""
    async with open_parley(settings, address, model) as parley:
        await parley.sql(
            "INSERT INTO personas (name, system_prompt, is_default, allowed_modules)"
            """ VALUES ('p', 'Be kind.', true, '["knowledge", "file_manager", "calendar", "calculator", "dialogue"]')"""
        )
        yield parley
        assert model.refusals == []


async def choose(parley: Parley, model: str) -> None:
    await parley.sql("UPDATE personas SET default_model = :model", model=model)


async def memories(parley: Parley) -> list[str]:
    """Return what is remembered of the only person there is."""
    user_id = await parley.value("SELECT id FROM users")
    place = Place("test", None, "dm-ann", is_direct=True)
    return [memory.content for memory in await parley.app.memory.of_user(user_id, place, None).list_all()]


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
        (TAGS, tag("local", "remember", content="Ann likes tea")),
        (FENCES, fence("knowledge.remember", content="Ann likes tea")),
        (FENCES, fence("remember", content="Ann likes tea")),
    ],
)
async def test_a_model_that_writes_its_calls_remembers_and_answers(parley: Parley, route: str, block: str) -> None:
    await choose(parley, route)
    parley.model.play([Answer(f"One moment.\n\n{block}"), Answer("Noted.")])

    reply = await parley.ask("remember that I like tea")

    assert (reply.content, reply.finished, reply.iterations, reply.model) == ("Noted.", True, 2, route)
    assert [(call.tool, call.args) for call in reply.tool_calls_made] == [
        ("knowledge.remember", {"content": "Ann likes tea"})
    ]
    assert await memories(parley) == ["Ann likes tea"]
    rows = await parley.sql("SELECT role, content FROM messages ORDER BY seq")
    assert [row.content for row in rows if row.role == "assistant"] == ["One moment.", "Noted."]
    first, second = (in_words(request.body) for request in parley.model.requests)
    assert first[0].startswith("Be kind.\n\nYou can call tools.")
    assert "- knowledge.remember: " in first[0]
    assert second[:2] == first
    assert second[2].startswith("One moment.\n\n")
    assert '<tool_result name="knowledge.remember"' in second[3]


async def test_several_calls_of_one_answer_are_one_wave(parley: Parley) -> None:
    await choose(parley, TAGS)
    wave = "\n".join(
        [tag("file_manager", "list_files"), tag("", "list_memories"), tag("knowledge", "recall", query="x")]
    )
    parley.model.play([Answer(wave), Answer("Nothing.")])

    reply = await parley.ask("what do you have?")

    assert [call.tool for call in reply.tool_calls_made] == [
        "file_manager.list_files",
        "knowledge.list_memories",
        "knowledge.recall",
    ]
    results = in_words(parley.model.requests[-1].body)[-1]
    assert results.index("file_manager.list_files") < results.index("knowledge.list_memories")


async def test_one_conversation_goes_from_native_to_text_and_back(parley: Parley) -> None:
    result = {"content": "Ann's dog is called Rex"}
    parley.model.play(
        [
            Answer("Sure.", tool_calls=[("knowledge__remember", result)]),
            Answer("I will."),
            Answer(tag("knowledge", "list_memories")),
            Answer("Rex."),
            Answer("", tool_calls=[("knowledge__list_memories", {})]),
            Answer("Still Rex."),
        ]
    )
    replies = []
    for model in (NATIVE, TAGS, NATIVE):
        await choose(parley, model)
        replies.append((await parley.ask("and my dog?")).content)

    assert replies == ["I will.", "Rex.", "Still Rex."]
    bodies = [request.body for request in parley.model.requests]
    past = in_words(bodies[2])
    assert past[2] == f"Sure.\n\n{tag('knowledge', 'remember', **result)}"
    assert past[4] == "I will."
    assert bodies[0]["tools"] == bodies[4]["tools"]
    roles = [message["role"] for message in bodies[4]["messages"]]
    exchange = ["user", "assistant", "tool", "assistant"]
    assert roles == ["system", *exchange, *exchange, "user"]
    assert "<tool>" not in json.dumps(bodies[4]["messages"])


async def test_a_text_model_takes_over_within_a_turn(parley: Parley) -> None:
    def plays(body: dict[str, Any], number: int) -> Reply:
        if body["model"] == "stub":
            return Answer("", tool_calls=[("knowledge__list_memories", {})]) if number == 1 else Fault(401)
        texts = in_words(body)
        assert "<tool_result" in texts[-1]
        return Answer(tag("file_manager", "list_files") if "list_files" not in texts[-1] else "You have nothing.")

    parley.model.play(plays)

    reply = await parley.ask("what do you have of mine?")

    assert (reply.content, reply.model) == ("You have nothing.", TAGS)
    assert [call.tool for call in reply.tool_calls_made] == ["knowledge.list_memories", "file_manager.list_files"]


@pytest.mark.parametrize("chunk_chars", [1, 5, 1000])
async def test_a_reader_of_the_stream_sees_no_block_and_no_thinking(parley: Parley, chunk_chars: int) -> None:
    await choose(parley, TAGS)
    block, end = tag("file_manager", "list_files"), asyncio.Event()
    parley.model.play(
        [
            Answer(f"<think>Files, {block}?</think>\n\nLooking.\n\n{block}\n", chunk_chars=chunk_chars),
            # A reader that is behind gets the end without the pieces before it: it does not come before the first one.
            Answer("<reasoning>None.</reasoning>No files, not `<tool>` either.", chunk_chars=chunk_chars, end=end),
        ]
    )

    accepted, events, streamed = await parley.accept("list my files", wants_stream=True), [], ""
    async for event in parley.app.events.follow(accepted.inbox_id):
        events.append(event)
        streamed += event.payload["text"] if event.name == "text_delta" else ""
        if "No" in streamed:
            end.set()

    assert streamed == "Looking.\n\nNo files, not `<tool>` either."
    names = [event.name for event in events if event.name != "text_delta"]
    assert names[2:] == ["thinking", "tool_call", "tool_result", "thinking", "message", "turn_complete"]
    thoughts = [event.payload["text"] for event in events if event.name == "thinking"]
    # What looks like a tag is shown with an invisible break, so that nobody takes it for HTML.
    assert [thought.replace("\\<", "<") for thought in thoughts] == [f"Files, {block}?", "None."]
    assert await parley.value("SELECT count(*) FROM messages WHERE content LIKE '%None.%'") == 0


@pytest.mark.parametrize("wants_stream", [False, True])
@pytest.mark.parametrize(
    "answer", [Answer("<think>A greeting.</think>\n\nHello."), Answer("Hello.", reasoning="A greeting.", chunk_chars=3)]
)
async def test_thinking_of_a_native_model_is_an_event_and_no_answer(
    parley: Parley, answer: Answer, wants_stream: bool
) -> None:
    parley.model.play([answer])

    accepted = await parley.accept("hello", wants_stream=wants_stream)
    events = {event.name: event.payload async for event in parley.app.events.follow(accepted.inbox_id)}

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
async def test_a_malformed_block_is_an_error_the_model_can_read_and_mend(parley: Parley, block: str) -> None:
    await choose(parley, TAGS)
    parley.model.play([Answer(block), Answer(tag("knowledge", "remember", content="x")), Answer("Done.")])

    reply = await parley.ask("remember x")

    assert reply.content == "Done."
    first, second = reply.tool_calls_made
    assert first.result["error"] is True
    assert "content" in first.result["parameters"]["properties"]
    assert "error" not in second.result
    result = in_words(parley.model.requests[1].body)[-1]
    assert ("was not run.)" in result) == ("user_id" not in block)


async def test_an_unknown_tool_is_answered_with_those_there_are(parley: Parley) -> None:
    await choose(parley, FENCES)
    parley.model.play([Answer('```delegate\n{"agent": "clerk", "task": "count"}\n```'), Answer("I can't.")])

    reply = await parley.ask("let the clerk count")

    [call] = reply.tool_calls_made
    assert (call.tool, call.args) == ("delegate", {"agent": "clerk", "task": "count"})
    assert "knowledge__remember" in call.result["available_tools"]


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
async def test_a_block_that_was_cut_never_runs(parley: Parley, finish_reason: str) -> None:
    await choose(parley, TAGS)
    whole, cut = tag("knowledge", "remember", content="x"), tag("knowledge", "remember", content="y")[:-9]
    parley.model.play([Answer(f"Noting. {whole} {cut}", finish_reason=finish_reason)])

    reply = await parley.ask("remember x and y")

    assert reply.content.startswith("Noting.\n\n[")
    assert (reply.finished, reply.tool_calls_made) == (False, ())
    assert await memories(parley) == []


@pytest.mark.parametrize("is_clean", [False, True])
async def test_a_stream_cut_within_a_block_is_asked_again(parley: Parley, is_clean: bool) -> None:
    await choose(parley, TAGS)
    answer = Answer(f"Noting. {tag('knowledge', 'remember', content='x')}", chunk_chars=8)
    parley.model.play([Fault(cut_after_chunks=9, is_clean=is_clean, answer=answer), Answer("Once more.")])

    events = await parley.follow("remember x")

    assert await memories(parley) == []
    assert [event.payload["content"] for event in events if event.name == "message"] == ["Once more."]
    assert not any("tool" in event.payload["text"] for event in events if event.name == "text_delta")


async def test_the_last_answer_is_asked_for_in_words_too(parley: Parley) -> None:
    await choose(parley, TAGS)
    await parley.sql("UPDATE personas SET max_iterations = 1")
    parley.model.play(
        [Answer(tag("file_manager", "list_files")), Answer(f"That is all. {tag('file_manager', 'list_files')}")]
    )

    reply = await parley.ask("go on")

    assert reply.content == "Reached maximum reasoning steps (1)\n\nThat is all."
    assert len(reply.tool_calls_made) == 1
    last = in_words(parley.model.requests[-1].body)
    assert last[0] == "Be kind."
    assert "no further tools" in last[-1]


async def test_the_prompt_of_a_text_model_begins_with_the_same_bytes(parley: Parley) -> None:
    await choose(parley, FENCES)
    parley.model.play(lambda _body, number: Answer(fence("list_files") if number % 2 else "Nothing."))
    for number in range(3):
        await parley.ask(f"message {number}")

    bodies = [json.dumps(request.body["messages"]) for request in parley.model.requests]
    assert bodies[1].startswith(bodies[0][:-1])
    ends = [json.dumps(request.body["messages"][:-1]) for request in parley.model.requests]
    assert all(later.startswith(earlier[:-1]) for earlier, later in pairwise(ends[::2]))
