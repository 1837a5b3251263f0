"""What an operator sees of a turn: its spans in a collector, and its line in the log; both without any text."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from structlog.testing import capture_logs

from agent.queue.outbox import Reply
from shared.clock import SystemClock
from shared.db.database import Address
from shared.errors import Unavailable
from shared.settings import Settings
from shared.tracing.otlp import opened_tracer
from shared.tracing.spans import is_tracing, traced_with
from tests.standins.openai_api import Answer, Fault, OpenAIStub
from tests.standins.otlp import Collector, attributes, opened_collector
from tests.support.parley import FakePlatform, message, open_parley

SECRET = "the treasure lies under the oak"
ROLL = ("calculator__calculate", {"expression": "6*7"})
CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "openai/stub",
    "gen_ai.response.model": "openai/stub",
}


class LatePlatform(FakePlatform):
    """A platform that takes no reply at first."""

    is_down = True

    async def send(self, reply: Reply) -> str | None:
        """Refuse the first reply."""
        if self.is_down:
            self.is_down = False
            self.arrived.set()
            raise Unavailable(f"not now: {SECRET}")
        return await super().send(reply)


def by_name(collector: Collector) -> dict[str, list[Any]]:
    spans: dict[str, list[Any]] = {}
    for span in collector.spans:
        spans.setdefault(span.name, []).append(span)
    return spans


async def test_a_turn_is_one_trace_from_its_arrival_to_its_delivery(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    platform = LatePlatform()
    model.play([Fault(503), Answer(tool_calls=[ROLL]), f"Answer: {SECRET}"])
    async with AsyncExitStack() as closing:
        collector = closing.enter_context(opened_collector())
        tracer = closing.enter_context(opened_tracer(collector.url, "key", version="1", clock=SystemClock()))
        closing.enter_context(traced_with(tracer))
        async with open_parley(settings, address, model, senders={"fake": platform}) as parley:
            accepted = await parley.app.inbox.accept(message(SECRET, adapter="fake"))
            async with asyncio.timeout(30):
                await platform.arrived.wait()
            await parley.sql("UPDATE outbox SET claimed_until = now()")
            await platform.wait_for(1)
            turn_id = await parley.value("SELECT id FROM turns")
        with opened_tracer(collector.url, "key", version="1", clock=SystemClock()) as other:
            other.record_first(accepted.inbox_id, "another process", {}, seconds=0)
    spans = by_name(collector)

    assert not is_tracing()
    (arrival,), (turn,), (late,) = spans["accept fake"], spans["invoke_agent"], spans["deliver_again"]
    failed, first, second = spans["chat openai/stub"]
    (tool,), (delivery, sent_again) = spans["execute_tool calculator.calculate"], spans["deliver fake"]
    # The worker, the sweeper and other processes know the trace by the message's row.
    assert {span.trace_id for span in collector.spans} == {arrival.trace_id}
    assert collector.spans[-1].span_id == turn.parent_span_id == late.parent_span_id == arrival.span_id
    inside = [span for span in collector.spans if span.parent_span_id == turn.span_id]
    assert inside == [*spans["build_context"], failed, first, tool, second, delivery]
    assert (arrival.parent_span_id, sent_again.parent_span_id) == (b"", late.span_id)
    assert [attributes(span)["error.type"] for span in (failed, delivery)] == ["unreachable", "Unavailable"]
    assert attributes(second).items() >= CHAT.items()
    assert attributes(turn).items() >= {"parley.turn.id": turn_id, "parley.status": "answered"}.items()
    # The price of the stand-in is unknown.
    assert not any("parley.cost" in attributes(span) for span in collector.spans)
    assert not any(word in body for body in collector.bodies for word in (SECRET.encode(), b"6*7"))


async def test_a_turn_is_one_line_in_the_log(settings: Settings, address: Address, model: OpenAIStub) -> None:
    model.play([Answer(tool_calls=[ROLL, ("made__up", {"text": SECRET})]), f"Answer: {SECRET}"])
    async with open_parley(settings, address, model) as parley:
        with capture_logs() as captured:
            answer = await parley.ask(SECRET, server="guild", channel="general")
        user_id = await parley.value("SELECT id FROM users")

    lines = [dict(event) for event in captured]
    (line,) = [line for line in lines if line["event"] == "turn_finished"]
    assert (
        line
        | {
            "turn": answer.turn_id,
            "attempt": 1,
            "user": user_id,
            "platform": "test",
            "server": "guild",
            "channel": "general",
            "persona": None,
            "status": "answered",
            "steps": 2,
            "waves": 1,
            "tools": {"calculator.calculate": 1, "unknown": 1},
            "route": "openai/stub",
            "tokens": answer.usage.total,
            "cost": None,
        }
        == line
    )
    parts = line["context_seconds"] + line["model_seconds"] + line["tool_seconds"] + line["delivery_seconds"]
    assert 0 < parts <= line["seconds"] + 0.01
    assert SECRET not in str(lines)
