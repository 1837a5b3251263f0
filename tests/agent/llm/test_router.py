"""The router over real HTTP, with the real litellm, against the strict stand-in."""

import asyncio
import gc
import json
from typing import Any

import pytest

from agent.llm.completions import ModelRequest
from agent.llm.router import Router
from shared.clock import SystemClock
from shared.errors import ModelsUnavailable
from shared.messages import Sampling
from shared.settings import Settings
from tests.standins.openai_api import Answer, Fault
from tests.standins.openai_api.script import gated_answer
from tests.support.model_calls import HELLO, ROLL, parley


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_answer_carries_text_usage_and_the_configured_name(is_streamed: bool) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 400}}
    async with parley([Answer("Hello there.", usage=usage)], "openai/gpt-4o-mini") as at:
        answer = await at.asks(is_streamed=is_streamed, sampling=Sampling(temperature=0.5))

        assert (answer.text, answer.stop, answer.model) == ("Hello there.", "end_turn", "openai/gpt-4o-mini")
        assert (answer.usage.input_tokens, answer.usage.cached_tokens, answer.usage.output_tokens) == (1000, 400, 100)
        assert answer.usage.cost == pytest.approx(600 * 0.15e-6 + 400 * 0.075e-6 + 100 * 0.6e-6)
        request = at.stub.requests[0]
        assert (request.body["model"], request.body["max_tokens"], request.body["temperature"]) == (
            "gpt-4o-mini",
            100,
            0.5,
        )
        assert request.headers["Authorization"] == "Bearer sk-test"
        assert "".join(at.told) == ("Hello there." if is_streamed else "")


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_tool_calls_come_back_as_they_were_written(is_streamed: bool) -> None:
    calls: list[Any] = [
        ("dice__roll", {"sides": 6}),
        ("dice__roll", '{"sides": broken', "same"),
        ("dice__roll", "", "same"),
    ]
    async with parley([Answer("Rolling.", calls, chunk_chars=3)]) as at:
        answer = await at.asks(is_streamed=is_streamed, tools=(ROLL,))

        assert answer.stop == "tool_use"
        assert answer.text == "Rolling."
        assert [call.name for call in answer.tool_calls] == ["dice__roll"] * 3
        assert json.loads(answer.tool_calls[0].arguments) == {"sides": 6}
        assert [call.arguments for call in answer.tool_calls[1:]] == ['{"sides": broken', "{}"]
        assert len({call.id for call in answer.tool_calls}) == 3


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_answer_at_its_length_limit_keeps_its_text_and_no_cut_call(is_streamed: bool) -> None:
    cut = Answer("As I was say", [("dice__roll", '{"sid')], finish_reason="length")
    async with parley([cut, Answer("", finish_reason="length")]) as at:
        first = await at.asks(is_streamed=is_streamed, tools=(ROLL,))
        second = await at.asks(is_streamed=is_streamed)

        assert (first.text, first.tool_calls, first.stop) == ("As I was say", (), "max_tokens")
        assert (second.text, second.stop, second.rejected) == ("", "max_tokens", ())


async def test_a_whole_exchange_with_results_is_taken_by_the_strict_api() -> None:
    async with parley(["You rolled a 4."], "small", "openai/gpt-5-mini") as at:
        call = {"id": "a", "type": "function", "function": {"name": "dice__roll", "arguments": "{}"}}
        messages = (
            {"role": "system", "content": "Be brief."},
            *HELLO,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "4"},
        )
        answer = await at.asks(messages=messages, tools=(ROLL,))
        # The last answer is asked for without tools; a reasoning model has its own parameter for the length.
        await at.asks(messages=messages, models=("openai/gpt-5-mini",), is_streamed=True)

        assert answer.text == "You rolled a 4."
        exchange = at.stub.requests[0].body["messages"]
        assert [{"content": None, **message} for message in exchange] == list(messages)
        assert at.stub.requests[1].body["max_completion_tokens"] == 100
        assert at.asked_models == ["small", "gpt-5-mini"]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_without_a_count_from_the_provider_usage_is_estimated(is_streamed: bool) -> None:
    negative = {"prompt_tokens": -5, "completion_tokens": -7}
    odd = {"prompt_tokens": 10, "completion_tokens": -7, "prompt_tokens_details": {"cached_tokens": 50}}
    async with parley(
        [Answer("Hello.", no_usage=True), Answer("Hello.", usage=negative), Answer("Hi.", usage=odd)]
    ) as at:
        answers = [await at.asks(is_streamed=is_streamed) for _ in range(3)]

        assert all(answer.usage.input_tokens > 5 and answer.usage.output_tokens == 2 for answer in answers[:2])
        assert answers[2].usage.cached_tokens == 10
        assert answers[2].usage.output_tokens == 0
        assert [answer.usage.cost for answer in answers] == [None, None, None]


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("chunks", [2, 5])
async def test_a_stream_that_is_cut_is_taken_back_and_asked_again(chunks: int, is_clean: bool) -> None:
    answer = Answer("It is nearly", [("dice__roll", {"sides": 6})], chunk_chars=4)
    cut = Fault(cut_after_chunks=chunks, is_clean=is_clean, answer=answer)
    async with parley([cut, "A whole answer."]) as at:
        completion = await at.asks(is_streamed=True, tools=(ROLL,))

        assert (completion.text, completion.tool_calls) == ("A whole answer.", ())
        assert "".join(at.told) == "A whole answer."
        [rejected] = completion.rejected
        assert rejected.model == "small"
        assert rejected.usage.input_tokens > 0


async def test_a_stream_cut_in_the_middle_of_a_call_never_gives_that_call() -> None:
    answer = Answer("", [("dice__roll", {"sides": 6}), ("dice__roll", {"sides": 20})], chunk_chars=4)
    async with parley(lambda _body, _number: Fault(cut_after_chunks=6, answer=answer)) as at:
        with pytest.raises(ModelsUnavailable) as excinfo:
            await at.asks(is_streamed=True, tools=(ROLL,), seconds=5)

        assert len(excinfo.value.fields["rejected"]) == 2


async def test_paid_answers_that_were_empty_are_told_with_the_good_one() -> None:
    usage = {"prompt_tokens": 50, "completion_tokens": 1}
    async with parley([Answer("", usage=usage), Answer("  \n", usage=usage), "Here."], "first", "second") as at:
        answer = await at.asks()

        assert answer.text == "Here."
        assert [(attempt.model, attempt.usage.input_tokens) for attempt in answer.rejected] == [
            ("first", 50),
            ("first", 50),
        ]


async def test_200_calls_at_once_run_side_by_side() -> None:
    gate, wait = gated_answer("Done.")
    async with parley(wait) as at:
        calls = [asyncio.create_task(at.asks(seconds=60)) for _ in range(200)]
        await at.stub.until(200)
        gate.set()
        answers = await asyncio.gather(*calls)

        assert {answer.text for answer in answers} == {"Done."}
        assert at.stub.peak == 200


async def test_nothing_is_left_running_or_open() -> None:
    before = asyncio.all_tasks()
    async with parley(
        ["One.", "Two.", Fault(cut_after_chunks=3), "Three.", "Four."], "small", "openai/gpt-5-mini"
    ) as at:
        await at.router.warm()
        await at.asks()
        await at.asks(is_streamed=True)
        await at.asks(is_streamed=True)
        await at.asks(is_streamed=True, models=("openai/gpt-5-mini",))
    # An unclosed connection would now warn, and warnings are errors.
    gc.collect()
    for _ in range(5):
        await asyncio.sleep(0)

    assert {task for task in asyncio.all_tasks() - before if "openai_api" not in repr(task)} == set()


async def test_without_any_model_the_offline_model_answers() -> None:
    router = Router(Settings(), SystemClock())
    await router.warm()
    answer = await router.complete(ModelRequest(HELLO, (), 10), deadline=SystemClock().monotonic() + 5)

    assert router.routes() == ("offline",)
    assert (answer.model, answer.usage.cost) == ("offline", 0.0)
    assert "LLM_MODELS" in answer.text
