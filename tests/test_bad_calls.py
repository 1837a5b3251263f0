"""Invalid calls by a model and invalid results of a tool give readable errors in bounded time and space."""

import asyncio
import itertools
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from agent.journal.steps import Step, ToolUse, TurnLog
from agent.llm.providers.streaming import StreamAccumulator
from agent.tools.calls import read_arguments, to_shown_arguments
from agent.tools.modules import ModuleTools
from agent.tools.outcomes import MOST_CHARS, to_json
from shared.db.database import Address
from shared.messages import AgentResponse, Permission
from shared.settings import Settings
from shared.tools import Tool, ToolContext
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import ScriptedCall
from tests.support.parley import Parley, open_parley

MB = 1_000_000
NOTHING: Any = None


async def echo(_context: ToolContext, words: list[str], times: int = 1) -> str:
    """Return the words."""
    return " ".join(words * times)


async def total(_context: ToolContext, numbers: list[int]) -> int:
    """Add numbers."""
    return sum(numbers)


def holding_on(let_go: asyncio.Event, seconds: float) -> Tool:
    """Return a tool that ignores cancellation until `let_go` is set."""

    async def hold_on(_context: ToolContext) -> str:
        """Ignore cancellation."""
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    return Tool(hold_on, Permission.GUEST, module="odd", timeout_seconds=seconds)


async def wait_for_ever(_context: ToolContext) -> str:
    """Wait."""
    await asyncio.Event().wait()
    return "never"


@dataclass
class Shelf:
    """A value without a JSON form."""

    books: list[str]


class Odd:
    """A value that pydantic can't serialize."""

    def __str__(self) -> str:
        return "odd" * 20


def loop() -> list[Any]:
    ring: list[Any] = []
    ring += [ring, ring]
    return ring


LARGE: dict[str, Callable[[], Any]] = {
    "text": lambda: "x" * 50 * MB,
    "bytes": lambda: b"\xff" * 50 * MB,
    "list": lambda: ["word"] * 6 * MB,
    "dict": lambda: {str(number): number for number in range(500_000)},
    "nested": lambda: [{"rows": [["x" * 1000] * 1000]}] * 50,
    "object": lambda: Shelf(["a book"] * MB),
    "odd": lambda: [Odd()] * MB,
    "endless": itertools.count,
    "itself": loop,
}


async def load(_context: ToolContext, kind: str) -> Any:
    """Return much more than a result may have."""
    return LARGE[kind]()


TOOLS = (
    Tool(echo, Permission.GUEST, module="odd"),
    Tool(total, Permission.GUEST, module="odd"),
    Tool(load, Permission.GUEST, module="odd"),
    Tool(wait_for_ever, Permission.GUEST, module="odd", timeout_seconds=0.1),
)


@asynccontextmanager
async def parley_with_odd_tools(
    settings: Settings, address: Address, model: OpenAIStub, *tools: Tool, is_unlimited: bool = True
) -> AsyncIterator[Parley]:
    overrides: dict[str, Any] = {"default_guest_modules": ("odd",)}
    overrides |= {"default_guest_token_budget": 10**9} if is_unlimited else {}
    modules = ModuleTools((*TOOLS, *tools))
    async with open_parley(settings.model_copy(update=overrides), address, model, modules=modules) as parley:
        yield parley


async def make_calls(
    settings: Settings, address: Address, model: OpenAIStub, *calls: ScriptedCall, is_streamed: bool = False
) -> AgentResponse:
    """Let the model make these calls in one answer, and return their results."""
    async with parley_with_odd_tools(settings, address, model) as parley:
        return await let_call(parley, *calls, is_streamed=is_streamed)


async def let_call(
    parley: Parley, *calls: ScriptedCall, is_streamed: bool = False, channel: str = "dm-ann"
) -> AgentResponse:
    """Let the model make these calls in one answer to a message in a channel, and return their results."""
    parley.model.play([Answer(tool_calls=calls, chunk_chars=1000), Answer("So be it.")])
    reply = await parley.ask("go on", wants_stream=is_streamed, channel=channel)
    assert reply.content == "So be it."
    assert parley.model.refusals == []
    # The model is shown no more than the limit for results.
    assert len(json.dumps(parley.model.requests[-1].body)) < 60_000
    return reply


WRONG: dict[str, tuple[str, str, str]] = {
    "a tool that is not there": ("odd__sing", "{}", "There is no tool 'odd__sing' here."),
    "a name of garbage": ("x" * 64, "{}", "There is no tool"),
    "broken": ("odd__echo", '{"words": ["a"', "The arguments are not valid JSON."),
    "no object": ("odd__echo", '["a"]', "The arguments must be a JSON object"),
    "infinite": ("odd__echo", '{"words": [], "times": 1e999}', "The arguments are not valid JSON."),
    "not a number": ("odd__echo", '{"words": [], "times": NaN}', "The arguments are not valid JSON."),
    "wrong type": ("odd__echo", '{"words": "a"}', "The arguments are not valid."),
    "unknown key": ("odd__echo", '{"words": [], "user_id": 7}', "The arguments are not valid."),
    "1,000 deep": ("odd__echo", '{"words": ' + "[" * 1000 + "]" * 1000 + "}", "nested at most 32 deep"),
    "100,000 deep": ("odd__echo", '{"words": ' + "[" * 100_000, "nested at most 32 deep"),
    "2 MB": ("odd__echo", json.dumps({"words": ["x" * 2 * MB]}), "The arguments are larger than 1,000,000 characters."),
    "wrong 190,000 times": ("odd__total", json.dumps({"numbers": ["x"] * 190_000}), "The arguments are not valid."),
}


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_wrong_call_is_an_error_that_says_what_would_be_valid(
    settings: Settings, address: Address, model: OpenAIStub, is_streamed: bool, subtests: pytest.Subtests
) -> None:
    good: ScriptedCall = ("odd__echo", {"words": ["fine"]})

    async with parley_with_odd_tools(settings, address, model) as parley:
        for wrong, (name, arguments, message) in WRONG.items():
            with subtests.test(wrong):
                # In a place of its own, where nothing was said before.
                reply = await let_call(parley, (name, arguments), good, is_streamed=is_streamed, channel=wrong)

                first, second = (call.result for call in reply.tool_calls_made)
                assert first["error"] is True
                assert message in first["message"]
                assert "parameters" in first or "odd__echo" in first["available_tools"]
                assert second == "fine"


async def test_a_call_of_two_megabytes_is_stored_cut_and_does_not_exhaust_the_budget(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    huge = json.dumps({"words": ["x" * 2 * MB]})
    usage = {"prompt_tokens": 10, "completion_tokens": 10}
    model.play([Answer(tool_calls=[("odd__echo", huge)], usage=usage), Answer("So be it.", usage=usage)])
    async with parley_with_odd_tools(settings, address, model, is_unlimited=False) as parley:
        reply = await parley.ask("go on")
        length = await parley.value("SELECT sum(length(content)) FROM messages")
        response = await parley.value("SELECT sum(length(payload::text)) FROM turn_events")

    assert reply.content == "So be it."
    assert length + response < 20_000


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_ten_thousand_calls_in_one_answer_run_as_far_as_one_answer_may_go(
    settings: Settings, address: Address, model: OpenAIStub, is_streamed: bool
) -> None:
    calls: Sequence[ScriptedCall] = [("odd__echo", {"words": [str(number)]}) for number in range(10_000)]

    reply = await make_calls(settings, address, model, *calls, is_streamed=is_streamed)

    results = [call.result for call in reply.tool_calls_made]
    assert results[:32] == [str(number) for number in range(32)]
    assert [result["error"] for result in results[32:]] == [True]
    assert "at most 32 calls" in results[32]["message"]


async def test_a_result_of_fifty_megabytes_is_cut(
    settings: Settings, address: Address, model: OpenAIStub, subtests: pytest.Subtests
) -> None:
    async with parley_with_odd_tools(settings, address, model) as parley:
        for kind in LARGE:
            with subtests.test(kind):
                reply = await let_call(parley, ("odd__load", {"kind": kind}), channel=kind)

                [result] = [call.result for call in reply.tool_calls_made]
                assert result["cut"] is True
                assert len(result["beginning"]) > 3000


@pytest.mark.parametrize("kind", ["text", "list", "nested", "endless", "itself"])
def test_only_a_part_of_a_large_result_is_inspected(kind: str) -> None:
    result = LARGE[kind]()
    tracemalloc.start()
    response = to_json(result, 8000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(response) <= 8000
    assert most < 40 * MOST_CHARS


def test_a_cut_result_states_its_full_length() -> None:
    response = json.loads(to_json(["word"] * 5000, 2000))

    assert response["total_chars"] == len(json.dumps(["word"] * 5000))
    assert json.loads(to_json({"a": [1, 2.5, None, True, "ü"], "b": {"c": ()}}, 2000)) == {
        "a": [1, 2.5, None, True, "ü"],
        "b": {"c": []},
    }


@pytest.mark.parametrize("tool", ["odd__wait_for_ever", "odd__hold_on"])
async def test_a_tool_that_never_returns_times_out_and_the_turn_goes_on(
    settings: Settings, address: Address, model: OpenAIStub, tool: str
) -> None:
    let_go = asyncio.Event()
    model.play([Answer(tool_calls=[(tool, {}), ("odd__echo", {"words": ["fine"]})]), Answer("So be it.")])
    async with parley_with_odd_tools(settings, address, model, holding_on(let_go, 0.1)) as parley:
        reply = await parley.ask("go on")
        let_go.set()

    first, second = (call.result for call in reply.tool_calls_made)
    message = f"{tool.replace('__', '.')} took longer than 0 seconds."
    assert first == {"error": True, "message": message, "temporary": True}
    assert second == "fine"


async def test_a_stop_does_not_wait_for_a_tool_that_ignores_cancellation(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    let_go = asyncio.Event()
    model.play([Answer("I begin.", tool_calls=[("odd__hold_on", {})]), Answer("never said")])
    async with parley_with_odd_tools(settings, address, model, holding_on(let_go, 60)) as parley:
        accepted = await parley.accept("go on", wants_stream=True)
        async for event in parley.app.events.follow(accepted.inbox_id):
            if event.name == "tool_call":
                await parley.sql("UPDATE turns SET stop_requested = true")
                await parley.sql("SELECT pg_notify('parley_stops', id::text) FROM turns")
        reply = await parley.app.events.response(accepted.inbox_id)
        let_go.set()

    assert (reply.error, reply.tool_calls_made[0].result) == ("stopped", None)
    assert reply.content == "I begin.\n\nStopped."
    assert len(model.requests) == 1


@pytest.mark.parametrize("part", ["text", "thinking", "call"])
def test_a_stream_without_end_is_cut_off(part: str) -> None:
    accumulator = StreamAccumulator(lambda _text: None)
    function = SimpleNamespace(name="odd__echo", arguments="x" * MB)
    call = SimpleNamespace(index=0, id="a", function=function)
    pieces: dict[str, dict[str, Any]] = {
        "text": {"content": "x" * MB},
        "thinking": {"reasoning_content": "x" * MB},
        "call": {"tool_calls": [call]},
    }
    delta = SimpleNamespace(**{"content": None, "tool_calls": None, **pieces[part]})
    chunk = SimpleNamespace(choices=[SimpleNamespace(delta=delta, finish_reason=None)], usage=None)

    for _ in range(8):
        accumulator.add(chunk)
    with pytest.raises(ValueError, match="no end"):
        accumulator.add(chunk)


def test_the_model_is_shown_its_arguments_cut_to_a_limit() -> None:
    short, long = (json.dumps(read_arguments(json.dumps({"words": ["x" * size]}))) for size in (100, 900_000))

    assert to_shown_arguments(short) == short
    assert json.loads(to_shown_arguments(long))["total_chars"] == len(long)
    assert len(to_shown_arguments(long)) < 5000


async def test_ten_waves_of_thirty_two_calls_keep_their_order(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    def play(body: dict[str, Any], _number: int) -> Answer:
        count = sum(1 for message in body["messages"] if message["role"] == "tool")
        words = [[f"{count}-{number}"] for number in range(32)]
        return (
            Answer("Enough.") if count >= 320 else Answer(tool_calls=[("odd__echo", {"words": word}) for word in words])
        )

    model.play(play)
    async with parley_with_odd_tools(settings, address, model) as parley:
        await parley.sql(
            "INSERT INTO personas (name, system_prompt, max_iterations, is_default) VALUES ('p', 'Be.', 11, true)"
        )
        reply = await parley.ask("go on")

    assert reply.content == "Enough."
    assert [call.result for call in reply.tool_calls_made] == [
        f"{wave * 32}-{number}" for wave in range(10) for number in range(32)
    ]


def steps_of(widths: Sequence[int]) -> Iterator[Step]:
    """Yield the journal of a turn whose answers made these numbers of calls."""
    yield Step(0, "user", "hello")
    seq = 1
    for width in widths:
        yield Step(seq, "assistant", "")
        for number in range(width):
            yield Step(seq + 1 + number, "tool_call", "{}", tool=ToolUse(f"call_{seq + 1 + number}"))
        for number in range(width):
            yield Step(seq + 1 + width + number, "tool_result", "{}", tool=ToolUse(f"call_{seq + 1 + number}"))
        seq += 1 + 2 * width


def test_the_state_of_a_turn_is_the_same_loaded_at_once_or_step_by_step() -> None:
    steps = list(steps_of([1, 3, 0, 2]))
    whole = TurnLog(1, steps)
    grown = TurnLog(1, [])
    for step in steps:
        grown.append([step])

    for log in (whole, grown):
        assert [answer.seq for answer in log.answers] == [1, 4, 11, 12]
        assert log.waves == 3
        assert log.next_seq == 17
        assert log.open_calls == []
    grown.append([Step(18, "tool_call", "{}", tool=ToolUse("call_18"))])
    assert [call.tool.call_id for call in grown.open_calls] == ["call_18"]
