"""What a model call that is broken off has cost, and that its connection is gone."""

import asyncio
from typing import Any

import pytest

from adapters.cli.worker import build_worker
from agent.live.channels import request_stop
from agent.llm.completions import CallObserver, ModelRequest, RejectedCall
from agent.llm.router import Router
from shared.clock import SystemClock
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import Answer, Fault, OpenAIStub
from tests.standins.openai_api.script import Reply
from tests.support.model_calls import HELLO, ROLL, SteppedClock
from tests.support.model_calls import Parley as Asking
from tests.support.model_calls import parley as asking
from tests.support.parley import Parley, message, open_parley
from tests.support.recovery import open_parley_with

LEDGER = "SELECT model, input_tokens, output_tokens, is_estimated FROM token_logs ORDER BY id"


async def cancelled(call: "asyncio.Task[Any]", at: Asking) -> None:
    """Break a call off, and wait until the provider has seen it."""
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    async with asyncio.timeout(30):
        await at.stub.until_idle()


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_call_that_was_sent_costs_its_prompt_and_its_connection_is_gone(is_streamed: bool) -> None:
    async with asking([Fault(hang=True)]) as at:
        spent: list[RejectedCall] = []
        call = asyncio.create_task(at.asks(is_streamed=is_streamed, spent=spent, tools=(ROLL,)))
        await at.stub.until(1)
        await cancelled(call, at)

        [lost] = spent
        assert lost.model == "small"
        assert lost.usage.input_tokens > 20
        assert lost.usage.output_tokens == 0
        assert at.stub.abandoned == 1


async def test_what_was_streamed_is_counted_thinking_too() -> None:
    reply = Answer("word " * 30, reasoning="hm " * 100, end=asyncio.Event())
    heard = asyncio.Event()

    def hear(piece: str) -> None:
        at.told.append(piece)
        if "".join(at.told).count("word") == 30:
            heard.set()

    async with asking([reply]) as at:
        spent: list[RejectedCall] = []
        request = ModelRequest(HELLO, (), 10)
        deadline = at.clock.monotonic() + 20
        call = asyncio.create_task(
            at.router.complete(request, deadline=deadline, observer=CallObserver(hear, spent=spent))
        )
        await heard.wait()
        await cancelled(call, at)

        assert spent[0].usage.output_tokens >= (30 * 5 + 100 * 3) / 3


async def test_nothing_is_counted_while_nothing_is_under_way() -> None:
    resting = asyncio.Event()

    def note_rest() -> float:
        resting.set()
        return 1.0

    async with OpenAIStub(lambda _body, _number: Fault(503)) as stub:
        parameters: dict[str, Any] = {"openai_base_url": stub.base_url, "openai_api_key": "sk-test"}
        router = Router(Settings(llm_models=("small",), **parameters), SystemClock(), jitter=note_rest)
        at = Asking(router, stub, SteppedClock())
        spent: list[RejectedCall] = []
        call = asyncio.create_task(at.asks(spent=spent))
        # The provider has refused, and the router waits before it asks again.
        await resting.wait()
        await cancelled(call, at)
        await router.aclose()

    assert spent == []


async def test_answers_that_were_refused_before_it_are_counted_with_it() -> None:
    usage = {"prompt_tokens": 50, "completion_tokens": 1}
    async with asking([Answer("", usage=usage), Answer("", usage=usage), Fault(hang=True)], "first", "second") as at:
        spent: list[RejectedCall] = []
        call = asyncio.create_task(at.asks(spent=spent))
        await at.stub.until(3)
        await cancelled(call, at)

        assert [attempt.model for attempt in spent] == ["first", "first", "second"]
        assert [attempt.usage.input_tokens for attempt in spent[:2]] == [50, 50]


async def test_a_route_that_hung_until_its_time_was_up_has_cost_its_prompt() -> None:
    def reply(body: dict[str, Any], _number: int) -> Reply:
        return Fault(hang=True) if body["model"] == "first" else Answer("Here.")

    async with asking(reply, "first", "second") as at:
        answer = await at.asks(seconds=2)

        assert answer.text == "Here."
        assert [attempt.model for attempt in answer.rejected] == ["first"]
        assert answer.rejected[0].usage.input_tokens > 0


async def test_a_stopped_answer_is_on_the_ledger_under_its_model(parley: Parley) -> None:
    parley.model.play([Answer("word " * 30, end=asyncio.Event())])
    accepted = await parley.accept("talk", wants_stream=True)
    async for event in parley.app.events.follow(accepted.inbox_id):
        if event.name == "text_delta":
            await request_stop(parley.app.database, message("").place, None)
    reply = await parley.app.events.response(accepted.inbox_id)

    [row] = await parley.sql(LEDGER)
    assert (reply.error, reply.model, row.model) == ("stopped", "openai/stub", "openai/stub")
    assert row.input_tokens > 100
    assert row.output_tokens > 5
    users = await parley.sql("SELECT tokens_used_this_month, tokens_reserved FROM users")
    assert [tuple(user) for user in users] == [(row.input_tokens + row.output_tokens, 0)]
    assert reply.usage.total == row.input_tokens + row.output_tokens


async def test_a_stop_before_a_provider_takes_the_request_costs_nothing(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    resting = asyncio.Event()

    def note_rest() -> float:
        resting.set()
        return 1.0

    model.play(lambda _body, _number: Fault(429, retry_after=3))
    router = Router(settings, SystemClock(), jitter=note_rest)
    async with open_parley_with(settings, address, model, router=router) as parley:
        accepted = await parley.accept("talk")
        await resting.wait()
        await request_stop(parley.app.database, message("").place, None)
        reply = await parley.app.events.response(accepted.inbox_id)
        await router.aclose()

        assert (reply.error, reply.usage.total) == ("stopped", 0)
        assert await parley.sql(LEDGER) == []
        assert await parley.value("SELECT tokens_used_this_month + tokens_reserved FROM users") == 0


async def test_a_call_that_ends_by_a_hand_over_is_on_the_ledger_and_the_turn_goes_on(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    model.play([Fault(hang=True), Answer("Here I am.")])
    async with open_parley(settings, address, model, works=False) as parley:
        stopping = asyncio.create_task(build_worker(parley.app, grace=0.1).run())
        accepted = await parley.accept("talk")
        await model.until(1)
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
        handed_over = await parley.sql(LEDGER)
        user = await parley.sql("SELECT tokens_used_this_month, tokens_reserved FROM users")
        parley.worker = asyncio.create_task(build_worker(parley.app).run())
        reply = await parley.app.events.response(accepted.inbox_id)

        [lost] = handed_over
        assert (lost.model, lost.output_tokens, lost.is_estimated) == ("openai/stub", 0, True)
        assert [tuple(row) for row in user] == [(lost.input_tokens, 0)]
        assert (reply.content, reply.iterations) == ("Here I am.", 1)
        spent = await parley.value("SELECT sum(input_tokens + output_tokens) FROM token_logs")
        assert spent == await parley.value("SELECT tokens_used_this_month FROM users")
        assert await parley.sql("SELECT handovers, status FROM turns") == [(1, "answered")]
