"""Every provider, in its own wire format over HTTP, gives the same answers, the same usage and the same causes."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent.llm.completions import CallObserver, Completion, ModelRequest, RejectedCall, RouteAttempt
from agent.llm.providers.requests import MARK
from agent.llm.router import Router
from shared.errors import AnswerFiltered, ModelsUnavailable, PromptTooLong
from tests.standins.providers import FORMATS, Answer, Broken, Failure, Format, ProviderStub, Reply, Silence
from tests.support.model_calls import HELLO, ROLL, SteppedClock

PARALLEL = (("dice__roll", {"sides": 6}), ("dice__roll", {"sides": 20}))
PROVIDERS = [pytest.param(wire, id=name) for name, wire in FORMATS.items()]
all_providers = pytest.mark.parametrize("wire", PROVIDERS)
streamed_or_not = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


class Call:
    """A router with one provider, and what a call of it has shown."""

    def __init__(self, router: Router, stub: ProviderStub, clock: SteppedClock) -> None:
        self.router, self.stub, self.clock = router, stub, clock
        self.text: list[str] = []
        self.attempts: list[RouteAttempt] = []
        self.spent: list[RejectedCall] = []

    async def ask(self, *, is_streamed: bool = False, seconds: float = 60, **request: Any) -> Completion:
        """Ask the model, as a turn does."""
        observer = CallObserver(
            on_text=self.text.append if is_streamed else None, spent=self.spent, attempts=self.attempts
        )
        return await self.router.complete(
            ModelRequest(**{"messages": HELLO, "tools": (), "max_tokens": 100, **request}),
            deadline=self.clock.monotonic() + seconds,
            observer=observer,
        )


@pytest.fixture
def environment() -> Iterator[MutableMapping[str, str]]:
    """The environment, in which a test sets a provider's variables."""
    before = dict(os.environ)
    yield os.environ
    os.environ.clear()
    os.environ.update(before)


@asynccontextmanager
async def provider(wire: Format, environment: MutableMapping[str, str], *replies: Reply) -> AsyncIterator[Call]:
    clock = SteppedClock()
    async with ProviderStub(wire, replies) as stub:
        environment.update(wire.variables(stub.base))
        router = Router(wire.settings(stub.base), clock, jitter=lambda: 0.0)
        try:
            await router.warm()
            yield Call(router, stub, clock)
        finally:
            await router.aclose()
        assert stub.refusals == []


@all_providers
@streamed_or_not
async def test_a_text_comes_with_its_usage(
    wire: Format, environment: MutableMapping[str, str], is_streamed: bool
) -> None:
    async with provider(wire, environment, Answer()) as call:
        completion = await call.ask(is_streamed=is_streamed)

        assert (completion.text, completion.stop, completion.model) == ("Hello there.", "end_turn", wire.model)
        usage = completion.usage
        assert (usage.input_tokens, usage.output_tokens) == (40, 7)
        assert usage.cached_tokens == (25 if wire.reports_cached else 0)
        assert "".join(call.text) == ("Hello there." if is_streamed else "")


@all_providers
@streamed_or_not
async def test_calls_of_tools_come_whole_and_their_results_go_back(
    wire: Format, environment: MutableMapping[str, str], is_streamed: bool
) -> None:
    async with provider(wire, environment, Answer("", calls=PARALLEL), Answer("4 and 17.")) as call:
        first = await call.ask(is_streamed=is_streamed, tools=(ROLL,))
        assert first.stop == "tool_use"
        assert [(tool_call.name, tool_call.arguments.replace(" ", "")) for tool_call in first.tool_calls] == [
            ("dice__roll", '{"sides":6}'),
            ("dice__roll", '{"sides":20}'),
        ]
        assert wire.tool_names(call.stub.requests[0]) == ["dice__roll"]
        calls = [
            {
                "id": tool_call.id,
                "type": "function",
                "function": {"name": tool_call.name, "arguments": tool_call.arguments},
            }
            for tool_call in first.tool_calls
        ]
        results = [
            {"role": "tool", "tool_call_id": each.id, "content": f'{{"rolled": {number}}}'}
            for each, number in zip(first.tool_calls, (4, 17), strict=True)
        ]
        wave = (*HELLO, {"role": "assistant", "content": None, "tool_calls": calls}, *results)
        request = json.dumps([wave, ROLL])
        last = await call.ask(is_streamed=is_streamed, messages=wave, tools=(ROLL,))

        # Other routes are sent the same messages and schemas.
        assert json.dumps([wave, ROLL]) == request
        assert last.text == "4 and 17."
        assert [text.replace(" ", "") for text in wire.results(call.stub.requests[1])] == [
            '{"rolled":4}',
            '{"rolled":17}',
        ]


@all_providers
async def test_calls_of_another_provider_in_the_history_are_accepted(
    wire: Format, environment: MutableMapping[str, str]
) -> None:
    call_id = "call_0f8c2b5d9a7e4c31b6a2d4e8"
    calls = [{"id": call_id, "type": "function", "function": {"name": "dice__roll", "arguments": '{"sides": 6}'}}]
    wave = (
        {"role": "system", "content": "You are Parley."},
        *HELLO,
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": call_id, "content": "4"},
        {"role": "user", "content": "Answer now."},
    )
    async with provider(wire, environment, Answer("It is 4.")) as call:
        # Without an offer, as in the last call of a turn that has no step left.
        assert (await call.ask(messages=wave)).text == "It is 4."


@all_providers
@streamed_or_not
async def test_an_answer_that_reached_the_limit_is_known_as_such(
    wire: Format, environment: MutableMapping[str, str], is_streamed: bool
) -> None:
    async with provider(wire, environment, Answer(stop="length")) as call:
        assert (await call.ask(is_streamed=is_streamed)).stop == "max_tokens"


@all_providers
@streamed_or_not
async def test_a_refused_key_is_the_cause(
    wire: Format, environment: MutableMapping[str, str], is_streamed: bool
) -> None:
    async with provider(wire, environment, Failure("key")) as call:
        with capture_logs() as logs, pytest.raises(ModelsUnavailable) as raised:
            await call.ask(is_streamed=is_streamed)

        assert raised.value.fields["causes"] == {wire.model: "key_refused"}
        assert [attempt.status for attempt in call.attempts] == [401]
        assert logs[-1]["causes"] == {wire.model: "key_refused"}
        assert len(call.stub.requests) == 1


@all_providers
@streamed_or_not
async def test_the_pause_that_a_provider_asks_for_is_kept(
    wire: Format, environment: MutableMapping[str, str], is_streamed: bool
) -> None:
    failure = Failure("rate", {} if wire.name == "gemini" else {"Retry-After": "30"})
    async with provider(wire, environment, failure, Answer()) as call:
        with pytest.raises(ModelsUnavailable) as raised:
            await call.ask(is_streamed=is_streamed, seconds=20)
        assert raised.value.fields["causes"] == {wire.model: "rate_limited"}
        assert 25 < (raised.value.retry_after or 0) <= 30
        assert len(call.stub.requests) == 1
        call.clock.ahead += 31

        assert (await call.ask(is_streamed=is_streamed)).text == "Hello there."


@all_providers
@streamed_or_not
async def test_an_error_of_the_server_is_tried_again(
    wire: Format, environment: MutableMapping[str, str], is_streamed: bool
) -> None:
    async with provider(wire, environment, Failure("server"), Answer()) as call:
        assert (await call.ask(is_streamed=is_streamed)).text == "Hello there."
        assert [attempt.outcome for attempt in call.attempts] == ["unreachable", "answered"]


@all_providers
@streamed_or_not
async def test_silence_ends_at_the_deadline_and_may_be_billed(
    wire: Format, environment: MutableMapping[str, str], is_streamed: bool
) -> None:
    async with provider(wire, environment, Silence()) as call:
        with pytest.raises(ModelsUnavailable) as raised:
            await call.ask(is_streamed=is_streamed, seconds=1)

        assert raised.value.fields["causes"] == {wire.model: "timed_out"}
        assert [rejected.usage.input_tokens > 0 for rejected in call.spent] == [True]


@all_providers
@streamed_or_not
async def test_a_prompt_that_is_too_long_is_no_fault_of_the_route(
    wire: Format, environment: MutableMapping[str, str], is_streamed: bool
) -> None:
    async with provider(wire, environment, Failure("too_long")) as call:
        with pytest.raises(PromptTooLong):
            await call.ask(is_streamed=is_streamed)
        call.stub.replies = [Answer()]

        assert (await call.ask(is_streamed=is_streamed)).text == "Hello there."


@streamed_or_not
@pytest.mark.parametrize(
    ("wire", "is_error"),
    [
        pytest.param(wire, is_error, id=f"{name}, {'error' if is_error else 'answer'}")
        for name, wire in FORMATS.items()
        for is_error in (False, True)
        if wire.has_filter(is_error)
    ],
)
async def test_a_filter_is_no_fault_of_the_route(
    wire: Format, environment: MutableMapping[str, str], is_streamed: bool, is_error: bool
) -> None:
    reply = Failure("filtered") if is_error else Answer("", stop="filter")
    async with provider(wire, environment, reply) as call:
        with pytest.raises(AnswerFiltered) as raised:
            await call.ask(is_streamed=is_streamed)
        assert raised.value.fields["causes"] == {wire.model: "filtered"}
        assert len(call.stub.requests) == 1
        call.stub.replies = [Answer()]

        assert (await call.ask(is_streamed=is_streamed)).text == "Hello there."


async def test_the_marks_for_the_cache_arrive_at_anthropic(environment: MutableMapping[str, str]) -> None:
    async with provider(FORMATS["anthropic"], environment, Answer()) as call:
        await call.ask(messages=({"role": "system", "content": "You are Parley."}, *HELLO))

        [request] = call.stub.requests
        assert request["system"][0]["cache_control"] == MARK
        assert request["messages"][-1]["content"][-1]["cache_control"] == MARK


async def test_the_proxy_of_the_environment_is_used_unless_the_host_is_excepted(
    environment: MutableMapping[str, str],
) -> None:
    wire = FORMATS["openai"]
    async with ProviderStub(wire, [Answer()]) as proxy:
        environment["http_proxy"] = proxy.base
        router = Router(wire.settings("http://models.invalid"), SteppedClock(), jitter=lambda: 0.0)
        request = ModelRequest(HELLO, (), 100)
        completion = await router.complete(request, deadline=SteppedClock().monotonic() + 60)
        await router.aclose()

        assert completion.text == "Hello there."
        assert len(proxy.requests) == 1
        environment["no_proxy"] = "127.0.0.1"
        async with provider(wire, environment, Answer()) as call:
            await call.ask()
            assert (len(call.stub.requests), len(proxy.requests)) == (1, 1)


@all_providers
async def test_a_stream_that_breaks_off_is_no_answer(wire: Format, environment: MutableMapping[str, str]) -> None:
    async with provider(wire, environment, Broken(Answer("Never whole.")), Answer()) as call:
        completion = await call.ask(is_streamed=True)

        assert completion.text == "Hello there."
        assert [attempt.outcome for attempt in call.attempts] in (["cut", "answered"], ["unreachable", "answered"])
        assert len(completion.rejected) == 1


@all_providers
async def test_a_provider_answers_again_after_its_connections_were_closed(
    wire: Format, environment: MutableMapping[str, str]
) -> None:
    async with ProviderStub(wire, (Answer(), Answer())) as stub:
        environment.update(wire.variables(stub.base))
        for _ in range(2):
            clock = SteppedClock()
            router = Router(wire.settings(stub.base), clock, jitter=lambda: 0.0)
            await router.warm()
            assert (await Call(router, stub, clock).ask()).text == "Hello there."
            await router.aclose()


@all_providers
async def test_routers_close_at_once(wire: Format, environment: MutableMapping[str, str]) -> None:
    async with ProviderStub(wire, (Answer(),)) as stub:
        environment.update(wire.variables(stub.base))
        clock = SteppedClock()
        routers = [Router(wire.settings(stub.base), clock, jitter=lambda: 0.0) for _ in range(3)]
        for router in routers:
            await router.warm()
            await Call(router, stub, clock).ask()

        await asyncio.gather(*(router.aclose() for router in routers))
