"""`DEBUG_MOCK_RESPONSES` instead of a model."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.llm.completions import CallObserver, ModelRequest, RejectedCall
from agent.llm.router import Router
from agent.llm.scripted.model import ERRORS
from shared.clock import SystemClock
from shared.db.database import Address
from shared.errors import ConfigurationError, ModelsUnavailable
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.model_calls import HELLO, Parley, SteppedClock
from tests.support.parley import open_parley


async def test_a_scripted_list_replaces_every_model_position_by_position() -> None:
    script = [
        "Hello.",
        {"content": "", "tool_calls": [{"name": "dice.roll", "arguments": {"sides": 6}}]},
        {"error": "down"},
    ]
    router = Router(Settings(llm_models=("small",), debug_mock_responses=json.dumps(script)), SystemClock())
    deadline = SystemClock().monotonic() + 5
    result: list[str] = []
    first = await router.complete(
        ModelRequest(HELLO, (), 10, models=("x",)), deadline=deadline, observer=CallObserver(result.append)
    )
    second = await router.complete(ModelRequest(HELLO, (), 10, position=1), deadline=deadline)
    with pytest.raises(ModelsUnavailable):
        await router.complete(ModelRequest(HELLO, (), 10, position=7), deadline=deadline)

    assert (first.text, first.model, result) == ("Hello.", "mock", ["Hello."])
    assert [(call.name, call.arguments) for call in second.tool_calls] == [("dice__roll", '{"sides": 6}')]


@pytest.mark.parametrize(
    "script",
    ["[", "[]", "{}", "[3]", '[{"text": "x"}]', '[{"delay": -1}]', "/no/such/file.json", '[{"tool_calls": [{}]}]'],
)
def test_a_wrong_script_stops_the_start_with_the_variable_and_the_remedy(script: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^DEBUG_MOCK_RESPONSES .*(unset it|reply)"):
        Router(Settings(debug_mock_responses=script), SystemClock())


def test_a_script_may_stand_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_text('["From a file."]')

    assert Router(Settings(debug_mock_responses=str(path)), SystemClock()).routes() == ("mock",)


async def test_scripted_texts_hold_blocks_of_both_protocols_and_thinking() -> None:
    script = [
        '<think>Six?</think>Rolling. <tool>{"server_name":"dice","tool_name":"roll","arguments":{"sides":6}}</tool>',
        'Again.\n\n```tool_call\n{"tool": "dice.roll", "arguments": {"sides": 20}}\n```',
        {"content": '```delegate\n{"agent": "clerk", "task": "count"}\n```', "tool_calls": [{"name": "dice.roll"}]},
        'Cut. <tool>{"tool": "dice.roll"',
        "Only shown: `<tool>{}</tool>`",
    ]
    router = Router(Settings(debug_mock_responses=json.dumps(script)), SystemClock())
    deadline = SystemClock().monotonic() + 5
    result: list[str] = []
    answers = [
        await router.complete(
            ModelRequest(HELLO, (), 10, position=number), deadline=deadline, observer=CallObserver(result.append)
        )
        for number in range(5)
    ]

    assert [[(call.name, call.arguments) for call in answer.tool_calls] for answer in answers] == [
        [("dice__roll", '{"sides": 6}')],
        [("dice.roll", '{"sides": 20}')],
        [("dice__roll", "{}"), ("delegate", '{"agent": "clerk", "task": "count"}')],
        [],
        [],
    ]
    assert [answer.text for answer in answers] == ["Rolling.", "Again.", "", "Cut.", "Only shown: `<tool>{}</tool>`"]
    assert [answer.stop for answer in answers] == ["tool_use", "tool_use", "tool_use", "max_tokens", "end_turn"]
    assert "".join(result).split() == " ".join(answer.text for answer in answers).split()
    assert answers[0].thinking == "Six?"


@asynccontextmanager
async def scripted(*script: Any) -> AsyncIterator[Parley]:
    """A router that plays this list."""
    async with OpenAIStub() as stub:
        clock = SteppedClock()
        yield Parley(Router(Settings(debug_mock_responses=json.dumps(script)), clock, jitter=lambda: 0.0), stub, clock)


async def test_a_watched_answer_comes_in_pieces() -> None:
    async with scripted("It is a truth universally acknowledged.") as at:
        await at.asks(is_streamed=True)

        assert len(at.told) == 3
        assert "".join(at.told) == "It is a truth universally acknowledged."


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_cut_answer_is_taken_back_paid_for_and_asked_again(is_streamed: bool) -> None:
    async with scripted({"content": "It is nearly four.", "cut": 8}) as at:
        answer = await at.asks(is_streamed=is_streamed)

        assert answer.text == "It is nearly four."
        assert "".join(at.told) == ("It is nearly four." if is_streamed else "")
        assert [attempt.usage.output_tokens for attempt in answer.rejected] == [3]


@pytest.mark.parametrize("cut", range(0, 96, 5))
async def test_no_call_of_an_answer_runs_that_was_cut(cut: int) -> None:
    blocks = '<tool>{"tool": "dice.roll"}</tool> and <tool>{"tool": "dice.roll", "arguments": {"sides": 20}}</tool>'
    assert len(blocks) > 95
    async with scripted({"content": blocks, "tool_calls": [{"name": "dice.roll"}], "cut": cut, "times": 2}) as at:
        with pytest.raises(ModelsUnavailable):
            await at.asks(is_streamed=True)

        assert at.told == []


@pytest.mark.parametrize("error", ERRORS)
async def test_each_kind_of_error_is_borne_as_a_provider_s_is(error: str) -> None:
    passes = {"rate_limit", "unreachable", "malformed", "empty", "too_long"}
    async with scripted({"error": error, "content": "Here."}) as at:
        if error in passes:
            assert (await at.asks()).text == "Here."
        else:
            with pytest.raises(ModelsUnavailable):
                await at.asks()


async def test_a_prompt_that_the_script_calls_too_long_is_pruned_and_asked_again() -> None:
    past = [{"role": role, "content": f"{role} " * 50} for _ in range(10) for role in ("user", "assistant")]
    async with scripted({"error": "too_long", "content": "That fits."}) as at:
        assert (await at.asks(messages=(*past, *HELLO))).text == "That fits."


async def test_a_scripted_answer_that_is_broken_off_is_counted() -> None:
    async with scripted({"content": "word " * 100, "pace": 0.001}) as at:
        spent: list[RejectedCall] = []
        heard = asyncio.Event()

        def hear(_piece: str) -> None:
            heard.set()

        request = ModelRequest(HELLO, (), 10)
        call = asyncio.create_task(
            at.router.complete(request, deadline=at.clock.monotonic() + 20, observer=CallObserver(hear, spent=spent))
        )
        await heard.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

        assert (spent[0].model, spent[0].usage.cost) == ("mock", 0.0)
        assert 0 < spent[0].usage.output_tokens < 170


async def test_entries_are_used_up_by_model_calls_alone(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    script = [
        {"tool_calls": [{"name": "dialogue.ask_question", "arguments": {"question": "Which one?"}}]},
        {"error": "bad_request"},
        {"content": "word " * 4000},
        {"tool_calls": [{"name": "file_manager.list_files"}]},
        "The fifth.",
        "The sixth.",
    ]
    changes = {"debug_mock_responses": json.dumps(script), "default_guest_token_budget": 10**9}
    changes |= {"default_guest_modules": ("dialogue", "file_manager")}
    async with open_parley(settings.model_copy(update=changes), address, model) as parley:
        answers = [(await parley.ask(f"message {number}")).content for number in range(5)]
        elsewhere = await parley.ask("hello", channel="another")

    assert answers[0] == "Which one?"
    assert "can't reach" in answers[1]
    # The third is more than the history holds: the window moves on, and the count does not.
    assert answers[2].startswith("word word")
    assert answers[3:] == ["The fifth.", "The sixth."]
    assert elsewhere.content == "Which one?"


async def test_a_delegate_block_becomes_a_call_whatever_there_is_to_delegate_to(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    script = ['```delegate\n{"agent": "nobody", "task": "count"}\n```', "Nobody could."]
    async with open_parley(
        settings.model_copy(update={"debug_mock_responses": json.dumps(script)}), address, model
    ) as parley:
        reply = await parley.ask("count the chairs")

    assert reply.content == "Nobody could."
    assert [(call.tool, call.result["error"]) for call in reply.tool_calls_made] == [("delegate", True)]
