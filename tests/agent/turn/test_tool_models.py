"""Tools that ask a model: the call is on the person's budget and in the ledger, and a refusal is the tool's error."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.journal.responses import find_response
from agent.tools.modules import ModuleTools
from shared.db.database import Address, Database
from shared.messages import Permission
from shared.settings import Settings
from shared.tools import ToolContext, tool
from tests.standins.openai_api import Answer, OpenAIStub, Reply
from tests.standins.openai_api.script import Body
from tests.support.parley import Parley, open_parley
from tests.support.recovery import losing_acknowledgements

ASK = "test_tool_models__ask_model"
PERSONA = "INSERT INTO personas (name, system_prompt, is_default) VALUES ('Parley', 'Be kind.', true)"


@tool(requires=Permission.GUEST, read_only=True, spends_budget=True)
async def ask_model(context: ToolContext, text: str) -> str:
    """Ask a model."""
    return await context.complete(text, instructions="Answer in one word.", max_tokens=50)


@tool(requires=Permission.GUEST, read_only=True)
async def ask_without_mark(context: ToolContext) -> str:
    """Ask a model, without saying so."""
    return await context.complete("hello")


@pytest.fixture
async def parley(settings: Settings, address: Address, model: OpenAIStub) -> AsyncIterator[Parley]:
    async with open_parley(settings, address, model, modules=ModuleTools([ask_model, ask_without_mark])) as parley:
        await parley.sql(PERSONA)
        yield parley


def is_from_tool(body: Body) -> bool:
    return bool(body["messages"][0]["content"] == "Answer in one word.")


def result_of(parley: Parley) -> Any:
    return json.loads(parley.model.requests[-1].body["messages"][-1]["content"])


async def test_the_call_of_a_tool_is_on_the_ledger_and_on_the_budget(parley: Parley) -> None:
    parley.model.play(
        [Answer(tool_calls=[(ASK, {"text": "Which colour?"})]), Answer("Blue."), Answer("The model says blue.")]
    )

    reply = await parley.ask("which colour?")

    assert (reply.content, reply.iterations) == ("The model says blue.", 2)
    body = parley.model.requests[1].body
    assert [message["content"] for message in body["messages"]] == ["Answer in one word.", "Which colour?"]
    assert body["max_tokens"] == 50
    ledger = await parley.sql("SELECT purpose, input_tokens + output_tokens AS total FROM token_logs ORDER BY id")
    assert [row.purpose for row in ledger] == ["answer", "tool", "answer"]
    assert sum(row.total for row in ledger) == reply.usage.total
    (user,) = await parley.sql("SELECT tokens_used_this_month AS used, tokens_reserved AS reserved FROM users")
    assert (user.used, user.reserved) == (reply.usage.total, 0)
    # Whoever asks later, in any process, is told the same.
    async with parley.app.database.statement() as session:
        later = await find_response(session, await parley.value("SELECT id FROM inbox"))
    assert later is not None
    assert later.usage == reply.usage


async def test_a_rejected_answer_to_a_tool_is_paid_for_too(parley: Parley) -> None:
    parley.model.play(
        [
            Answer(tool_calls=[(ASK, {"text": "Which colour?"})]),
            Answer("", usage={"prompt_tokens": 70, "completion_tokens": 0}),
            Answer("Blue."),
            Answer("Blue, then."),
        ]
    )

    reply = await parley.ask("which colour?")

    assert reply.content == "Blue, then."
    ledger = [row.total for row in await parley.sql("SELECT input_tokens + output_tokens AS total FROM token_logs")]
    assert len(ledger) == 4
    assert sum(ledger) == reply.usage.total == await parley.value("SELECT tokens_used_this_month FROM users")


async def test_calls_of_tools_at_the_same_time_are_all_paid(parley: Parley) -> None:
    def script(body: Body, _number: int) -> Reply:
        if is_from_tool(body):
            return Answer(f"Answer to {body['messages'][1]['content']}")
        if body["messages"][-1]["role"] == "tool":
            return Answer("All of them.")
        return Answer(tool_calls=[(ASK, {"text": text}) for text in ("one", "two", "three")])

    parley.model.play(script)

    reply = await parley.ask("ask three times")

    assert reply.content == "All of them."
    results = [
        message["content"] for message in parley.model.requests[-1].body["messages"] if message["role"] == "tool"
    ]
    assert results == [f'"Answer to {text}"' for text in ("one", "two", "three")]
    assert await parley.value("SELECT count(*) FROM token_logs WHERE purpose = 'tool'") == 3
    assert await parley.value("SELECT tokens_reserved FROM users") == 0


async def test_a_budget_that_is_used_up_is_the_error_of_the_tool(parley: Parley) -> None:
    await parley.ask("hello")
    await parley.sql("UPDATE users SET token_budget_monthly = tokens_used_this_month + 100")
    parley.model.play(
        [Answer(tool_calls=[(ASK, {"text": "Which colour?"})], usage={"prompt_tokens": 100, "completion_tokens": 100})]
    )

    reply = await parley.ask("which colour?")

    assert reply.error == "budget_exhausted"
    (result,) = await parley.sql("SELECT content FROM messages WHERE role = 'tool_result'")
    assert "You have used this month's budget" in json.loads(result.content)["message"]
    assert await parley.value("SELECT count(*) FROM token_logs WHERE purpose = 'tool'") == 0


async def test_a_tool_without_the_mark_asks_no_model(parley: Parley) -> None:
    parley.model.play([Answer(tool_calls=[("test_tool_models__ask_without_mark", {})]), Answer("No.")])

    await parley.ask("ask without a mark")

    assert "`spends_budget`" in result_of(parley)["message"]


async def test_a_stop_in_the_middle_of_a_tools_call_pays_for_it(parley: Parley) -> None:
    event = asyncio.Event()

    async def script(body: Body, _number: int) -> Reply:
        if not is_from_tool(body):
            return Answer(tool_calls=[(ASK, {"text": "Which colour?"})])
        event.set()
        await asyncio.Event().wait()
        return Answer("never")

    parley.model.play(script)
    accepted = await parley.accept("which colour?")
    async with asyncio.timeout(30):
        await event.wait()
        await parley.sql("UPDATE turns SET stop_requested = true")
        await parley.sql("SELECT pg_notify('parley_stops', id::text) FROM turns")
        response = await parley.app.events.response(accepted.inbox_id)

    assert response.error == "stopped"
    assert await parley.value("SELECT count(*) FROM token_logs WHERE purpose = 'tool'") == 1
    assert await parley.value("SELECT tokens_reserved FROM users") == 0


async def test_the_acknowledgement_of_any_commit_of_a_tool_that_asks_a_model_may_be_lost(
    settings: Settings, address: Address, model: OpenAIStub, database: Database
) -> None:
    def script(body: Body, _number: int) -> Reply:
        if is_from_tool(body):
            return Answer("Blue.")
        if body["messages"][-1]["role"] == "tool":
            return Answer("The model says blue.")
        return Answer(tool_calls=[(ASK, {"text": "Which colour?"})])

    model.play(script)
    modules = ModuleTools([ask_model])
    async with losing_acknowledgements(settings, address, model, database, modules=modules) as losing:
        await losing.parley.sql(PERSONA)
        async for question in losing.messages():
            reply = await losing.parley.ask(question, channel=question)
            assert (reply.error, reply.content) == (None, "The model says blue.")
