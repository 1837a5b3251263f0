"""Lines of a streamed answer, as servers with OpenAI's API send them, or should."""

import json
from typing import Any

import pytest

from agent.llm.providers.streaming import StreamAccumulator
from tests.standins.openai_api import Answer
from tests.support.model_calls import parley


def accumulate(*lines: str) -> StreamAccumulator:
    """Return what these lines give."""
    accumulator = StreamAccumulator(lambda _text: None)
    for line in lines:
        accumulator.add_line(line)
    return accumulator


def line(**delta: Any) -> str:
    """Return a line with this piece of the answer."""
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}"


END = 'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}'


def test_what_is_no_piece_of_the_answer_is_passed_over() -> None:
    noise = ("", ": keep-alive", "event: message", "data: {not json", 'data: {"type": "ping"}', 'data: {"choices": []}')

    answer = accumulate(
        *noise, line(content="Hi", role="assistant"), *noise, line(content=" there"), END, "data: [DONE]"
    )

    assert (answer.text, answer.finish_reason) == ("Hi there", "stop")


def test_thinking_and_calls_are_read_by_the_names_that_servers_use() -> None:
    first = {"index": 0, "id": 7, "function": {"name": "dice__roll", "arguments": '{"sides": '}}
    rest = {"index": 0, "id": 7, "function": {"arguments": "6}"}}
    whole = {"index": 1, "id": "b", "function": {"name": "dice__roll", "arguments": {"sides": 8}}}

    answer = accumulate(
        line(reasoning="Hm. "),
        line(reasoning_content="Yes."),
        *(line(tool_calls=[call]) for call in (first, rest, whole)),
    )

    assert answer.thinking == "Hm. Yes."
    assert [(call.id, call.arguments) for call in answer.tool_calls] == [("7", '{"sides": 6}'), ("b", '{"sides": 8}')]


@pytest.mark.parametrize(
    "bad",
    ['data: {"error": {"message": "overloaded"}}', "data: [1]", "data: 7", 'data: {"choices": [7]}',
     'data: {"choices": {"a": 1}}', line(content=7), line(content={"a": 1}), line(tool_calls=[{"function": "x"}]),
     "data: " + "[" * 100_000],
)  # fmt: skip
def test_a_line_that_no_answer_has_ends_it(bad: str) -> None:
    with pytest.raises((ValueError, TypeError, LookupError, AttributeError, RuntimeError)):
        accumulate(line(content="Hi"), bad)


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 10, "prompt_cache_hit_tokens": 60}, (100, 60, 10)),
        ({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": 7}, None),
        ({"prompt_tokens": "many", "completion_tokens": "few"}, None),
    ],
)
async def test_tokens_are_counted_by_the_names_that_servers_use_and_estimated_without(
    usage: dict[str, Any], counts: tuple[int, int, int] | None
) -> None:
    async with parley([Answer("Hi.", usage=usage)]) as own:
        answer = await own.asks(is_streamed=True)
    counted = (answer.usage.input_tokens, answer.usage.cached_tokens, answer.usage.output_tokens)

    assert answer.text == "Hi."
    assert counted == counts if counts else counted[0] > 0


async def test_an_answer_may_contain_the_mark_that_ends_a_stream() -> None:
    async with parley(["It ends with data: [DONE], as always."]) as own:
        streamed = await own.asks(is_streamed=True)

    assert streamed.text == "".join(own.told) == "It ends with data: [DONE], as always."
