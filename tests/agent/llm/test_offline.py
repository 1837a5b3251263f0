"""The offline model: plain requests become real tool calls, and results become sentences."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from agent.llm.completions import AttemptState, Completion, ModelRequest
from agent.llm.offline.model import OfflineModel
from shared.clock import SystemClock

FUNCTIONS = (
    "knowledge__remember",
    "knowledge__recall",
    "knowledge__list_memories",
    "knowledge__forget",
    "file_manager__create_document",
    "file_manager__list_files",
    "file_manager__read_document",
    "file_manager__get_file_link",
    "file_manager__delete_file",
    "calendar__resolve_date_hint",
)
NOW = "<context>\nNow: Friday, 20 March 2026, 09:30 (Europe/Berlin)\nYou remember:\n- tea\n</context>"


class NoonClock(SystemClock):
    def now(self) -> datetime:
        return datetime(2026, 3, 20, 12, 0, tzinfo=UTC)


def tool(name: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}, "required": list(required)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


# Two tools have the name list_files.
ALL = (tool("code_executor__list_files"), *(tool(name) for name in FUNCTIONS))


async def asks(message: str, *after: dict[str, Any], tools: tuple[dict[str, Any], ...] = ALL) -> Completion:
    messages = ({"role": "system", "content": "Be kind."}, {"role": "user", "content": f"{message}\n\n{NOW}"}, *after)
    return await OfflineModel(NoonClock()).complete("offline", ModelRequest(messages, tools, 500), AttemptState(10))


def returned(name: str, arguments: dict[str, Any], result: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    call = {"id": "a", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    content = result if isinstance(result, str) else json.dumps(result)
    return (
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": content},
    )


@pytest.mark.parametrize(
    ("message", "name", "arguments"),
    [
        ("Remember that my cat is called Tom.", "knowledge__remember", {"content": "my cat is called Tom"}),
        ("please remember: I like tea", "knowledge__remember", {"content": "I like tea"}),
        ("Ada: remember that I row", "knowledge__remember", {"content": "I row"}),
        ("Merke dir, dass ich Tee mag", "knowledge__remember", {"content": "ich Tee mag"}),
        ("What do you remember?", "knowledge__list_memories", {}),
        ("what do you know about me", "knowledge__list_memories", {}),
        ("What do you know about my cat?", "knowledge__recall", {"query": "my cat"}),
        ("was weißt du über meine Katze?", "knowledge__recall", {"query": "meine Katze"}),
        ("What is my cat called?", "knowledge__recall", {"query": "What is my cat called"}),
        ("where do I live?", "knowledge__recall", {"query": "where do I live"}),
        ("forget memory 12", "knowledge__forget", {"memory_id": 12}),
        ("Forget that I row", "knowledge__recall", {"query": "I row"}),
        ("List my files!", "file_manager__list_files", {}),
        ("welche Dateien habe ich?", "file_manager__list_files", {}),
        (
            "Write a document called Plan with: first we eat\nthen we sleep",
            "file_manager__create_document",
            {"title": "Plan", "content": "first we eat\nthen we sleep", "format": "md"},
        ),
        (
            "create a file named plan.txt containing hello",
            "file_manager__create_document",
            {"title": "plan", "content": "hello", "format": "txt"},
        ),
        (
            "Can you make a csv file called ages with Ada,36",
            "file_manager__create_document",
            {"title": "ages", "content": "Ada,36", "format": "csv"},
        ),
        ("read file 7", "file_manager__read_document", {"file_id": 7}),
        ("give me a link to file 7", "file_manager__get_file_link", {"file_id": 7}),
        ("delete document #7", "file_manager__delete_file", {"file_id": 7}),
        ("What day is next Friday?", "calendar__resolve_date_hint", {"hint": "next Friday"}),
        ("wann ist Ostern?", "calendar__resolve_date_hint", {"hint": "Ostern"}),
    ],
)
async def test_a_plain_request_becomes_a_tool_call(message: str, name: str, arguments: dict[str, Any]) -> None:
    answer = await asks(message)

    [call] = answer.tool_calls
    assert answer.stop == "tool_use"
    assert (call.name, json.loads(call.arguments)) == (name, arguments)


@pytest.mark.parametrize(
    ("message", "name", "result", "sentence"),
    [
        ("remember that I row", "knowledge__remember", {"id": 1}, "I will remember that: I row"),
        (
            "what do you know about tea?",
            "knowledge__recall",
            [{"id": 1, "content": "Ada likes tea"}],
            "- Ada likes tea",
        ),
        ("what do you know about tea?", "knowledge__recall", {"memories": []}, "I remember nothing about that."),
        ("what do you remember?", "knowledge__list_memories", [], "I remember nothing yet."),
        ("forget memory 1", "knowledge__forget", {"forgotten": True}, "I have forgotten it."),
        (
            "list my files",
            "file_manager__list_files",
            [{"file_id": 3, "filename": "a.md", "size_bytes": 9}],
            "a.md (file 3",
        ),
        ("list my files", "file_manager__list_files", [], "You have no files yet."),
        ("read file 3", "file_manager__read_document", {"filename": "a.md", "text": "hello"}, "a.md says:\n\nhello"),
        (
            "read file 4",
            "file_manager__read_document",
            {"error": True, "message": "There is no file."},
            "There is no file.",
        ),
        ("when is Easter?", "calendar__resolve_date_hint", {"text": "Easter: Sunday."}, "Easter: Sunday."),
        ("when is Easter?", "calendar__resolve_date_hint", {"date": "2026-04-05"}, "date: 2026-04-05"),
        ("when is Easter?", "calendar__resolve_date_hint", "not JSON, cut …", "not JSON, cut …"),
    ],
)
async def test_a_result_becomes_a_sentence(message: str, name: str, result: Any, sentence: str) -> None:
    answer = await asks(message, *returned(name, {"content": "I row"}, result))

    assert sentence in answer.text
    assert answer.stop == "end_turn"


async def test_forgetting_by_words_looks_the_memory_up_and_forgets_it() -> None:
    messages = returned("knowledge__recall", {"query": "I row"}, [{"id": 5, "content": "rows"}])
    [call] = (await asks("forget that I row", *messages)).tool_calls

    assert (call.name, json.loads(call.arguments)) == ("knowledge__forget", {"memory_id": 5})
    nothing = returned("knowledge__recall", {"query": "I row"}, [])
    assert "nothing" in (await asks("forget that I row", *nothing)).text


async def test_the_request_for_a_last_answer_is_not_taken_for_the_person() -> None:
    request = {"role": "user", "content": "You have used all your steps."}
    answer = await asks("list my files", *returned("file_manager__list_files", {}, []), request, tools=())

    assert answer.text == "You have no files yet."


@pytest.mark.parametrize(
    ("message", "result"),
    [
        ("What is 12*(3+4)?", "84"),
        ("2^10", "1024"),
        ("calculate 7 / 2", "3.5"),
        ("Ada: what's 1,234 + 1?", "1235"),
        ("was ist 3,5 + 1", "4.5"),
        ("-3 * -2", "6"),
        ("1/0", "can't work that out"),
        ("9**9**9**9", "can't work that out"),
        ("(((((1+", "can't work that out"),
        ("(-8)^(1/3)", "can't work that out"),
        ("1+" * 90_000, "can't work that out"),
        ("99999999 ^ 999999999", "can't work that out"),
    ],
)
async def test_sums_are_worked_out_within_bounds(message: str, result: str) -> None:
    assert (await asks(message)).text.endswith((result, f"{result}."))


async def test_a_sum_goes_to_the_tool_that_takes_an_expression() -> None:
    [call] = (await asks("what is 2+2?", tools=(*ALL, tool("sums__evaluate", ("expression",))))).tool_calls

    assert (call.name, json.loads(call.arguments)) == ("sums__evaluate", {"expression": "2+2"})


@pytest.mark.parametrize("message", ["What day is it?", "what's the time", "what day is it today?", "Wie spät ist es?"])
async def test_the_present_day_is_told_in_the_persons_own_time(message: str) -> None:
    assert (await asks(message)).text == "It is Friday, 20 March 2026, 09:30 (Europe/Berlin)."


@pytest.mark.parametrize(
    "message",
    [
        "hello",
        "",
        "Tell me a story about 12 dragons.",
        "12",
        "x" * 20_000,
        "what is " * 9000,
        "what know " * 9000,
        "what" + " " * 90_000 + "x",
    ],
)
async def test_anything_else_is_told_what_it_is_and_how_to_get_more(message: str) -> None:
    answer = await asks(message, tools=(tool("knowledge__remember"),))

    assert "small offline model" in answer.text
    assert "LLM_MODELS" in answer.text
    assert "remember that my cat" in answer.text
    assert "list my files" not in answer.text
    assert answer.tool_calls == ()


async def test_a_tool_that_is_not_offered_is_not_called() -> None:
    answer = await asks("remember that I row", tools=())

    assert answer.tool_calls == ()
    assert "there is no tool for it here" in answer.text


async def test_it_streams_word_by_word_is_counted_and_free() -> None:
    response: list[str] = []
    request = ModelRequest(({"role": "user", "content": "hello"},), (), 500)
    answer = await OfflineModel(NoonClock()).complete("offline", request, AttemptState(10, response.append))

    assert len(response) > 20
    assert "".join(response) == answer.text
    assert answer.usage.input_tokens > 0
    assert answer.usage.output_tokens > 50
    assert answer.usage.cost == 0.0
