"""Polling jobs: a check is made until its condition holds, it expires, or it can't be made."""

import asyncio
import json
from typing import Any

import pytest

from shared.db.database import Address
from shared.messages import Permission
from shared.settings import Settings
from shared.tools import Tool, ToolContext
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.loopback import reply, serving
from tests.support.office import calls
from tests.support.parley import Parley, open_parley

USER = "UPDATE users SET permission_level = 'user'"
CHECK_NOW = "UPDATE scheduled_jobs SET next_due_at = now() WHERE status = 'active'"
JOB = "SELECT status, runs, error, next_due_at FROM scheduled_jobs"
STEPS = "SELECT role, tool_name, content FROM messages WHERE turn_id = (SELECT max(id) FROM turns) ORDER BY seq"

pytestmark = pytest.mark.settings(default_guest_token_budget=1_000_000)


async def watch(parley: Parley, **arguments: Any) -> Any:
    """Let the model watch something for Ann, and return the tool's result."""
    await parley.ask("hello", adapter="fake")
    await parley.sql(USER)
    # What an earlier check has read would make the next one ask for a yes.
    await parley.sql("UPDATE conversations SET window_turn_id = (SELECT max(id) + 1 FROM turns)")
    parley.platform.posts.clear()
    parley.model.play(
        [calls(("scheduler__watch", {"text": "The bike is there.", **arguments})), Answer("I will look.")]
    )
    result = (await parley.ask("watch it", adapter="fake")).tool_calls_made[0].result
    await parley.platform.wait_for(1)
    return result


async def until_checked(parley: Parley, runs: int) -> Any:
    """Return the job's row as soon as so many checks have been made."""
    async with asyncio.timeout(30):
        while (job := (await parley.sql(JOB))[0]).runs < runs:  # noqa: ASYNC110  # the worker is waited for
            await asyncio.sleep(0.05)
    return job


async def test_a_tool_is_asked_until_its_result_fulfils_the_condition(parley: Parley) -> None:
    prices = [30, 25, 15]

    async def price(context: ToolContext, name: str) -> dict[str, Any]:
        """Look up a price."""
        return {"name": name, "price": prices.pop(0), "asked_by": context.user.name}

    parley.app.tools.mcp.offer([Tool(price, Permission.USER, read_only=True, reads_untrusted=True, module="shop")])
    watched = {"tool_name": "shop__price", "arguments": {"name": "bike"}, "path": "price", "comparison": "below"}
    result = await watch(parley, **watched, value=20, action="resume_conversation")
    assert result["checks"] == "shop.price"
    for runs in (1, 2):
        job = await until_checked(parley, runs)
        assert (job.status, job.error) == ("active", None)
        await parley.sql(CHECK_NOW)

    parley.model.play([Answer("It costs 15.")])
    assert (await parley.platform.wait_for(2))[1] == "It costs 15."

    assert (await until_checked(parley, 3)).status == "finished"
    assert [row.role for row in await parley.sql(STEPS)] == [
        "user",
        "assistant",
        "tool_call",
        "tool_result",
        "assistant",
    ]
    # The model reads the result as that of a tool, with its taint.
    messages = parley.model.requests[-1].body["messages"]
    assert json.loads([message["content"] for message in messages if message["role"] == "tool"][-1])["price"] == 15


async def test_an_address_is_read_through_the_egress_guard(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    stock = {"items": [{"name": "bike", "left": 3}], "more": "x" * 20_000}
    async with serving(reply(json.dumps(stock).encode())) as server:
        watched = {"url": f"{server.origin}/stock", "path": "items.0.left", "comparison": "above", "value": 2}
        new_settings = settings.model_copy(update={"egress_allow": (server.origin,)})
        async with open_parley(new_settings, address, model) as parley:
            await watch(parley, **watched)
            assert '"value": 3' in (await parley.platform.wait_for(2))[1]
        assert [request.path for request in server.requests] == ["/stock"]
        async with open_parley(settings, address, model) as parley:
            await watch(parley, **watched)
            assert (await parley.platform.wait_for(2))[1].startswith("Reminder: The bike is there.\n\n")
        assert len(server.requests) == 1


async def test_a_check_that_does_not_come_true_expires_and_says_so(parley: Parley) -> None:
    async def price(_context: ToolContext) -> int:
        """Look up a price."""
        return 30

    parley.app.tools.mcp.offer([Tool(price, Permission.USER, read_only=True, module="shop")])
    await watch(parley, tool_name="shop.price", comparison="below", value=20, until="in 2 hours")
    await until_checked(parley, 1)

    await parley.sql("UPDATE scheduled_jobs SET expires_at = now()")
    await parley.sql(CHECK_NOW)

    notice = (await parley.platform.wait_for(2))[1]
    assert notice.startswith("Reminder: The bike is there.\n\nWhat it waited for had not come true by ")
    assert (await until_checked(parley, 2)).status == "finished"


async def test_a_tool_that_acts_or_is_not_permitted_is_not_called(parley: Parley) -> None:
    call_ids: list[str] = []

    async def pay(context: ToolContext) -> str:
        """Pay something."""
        call_ids.append(context.call_id)
        return "paid"

    async def secret(context: ToolContext) -> str:
        """Look up a secret."""
        call_ids.append(context.call_id)
        return "secret"

    tools = [Tool(pay, Permission.GUEST, module="shop"), Tool(secret, Permission.ADMIN, read_only=True, module="shop")]
    parley.app.tools.mcp.offer(tools)
    await watch(parley, tool_name="shop.pay", comparison="exists")
    assert "shop.pay can't be checked" in (await parley.platform.wait_for(2))[1]
    await watch(parley, tool_name="shop.secret", comparison="exists")
    assert "There is no tool" in (await parley.platform.wait_for(2))[1]
    assert call_ids == []


async def test_a_check_by_a_module_that_is_switched_off_is_not_made(parley: Parley) -> None:
    calls_made: list[str] = []

    async def price(context: ToolContext) -> int:
        """Look up the price."""
        calls_made.append(context.call_id)
        return 9

    parley.app.tools.mcp.offer([Tool(price, Permission.GUEST, read_only=True, module="shop")])
    await parley.sql("INSERT INTO modules (name, is_enabled) VALUES ('shop', false)")
    await watch(parley, tool_name="shop.price", comparison="exists")

    assert "There is no tool" in (await parley.platform.wait_for(2))[1]
    assert calls_made == []


async def test_a_check_while_a_service_is_away_is_made_again(parley: Parley) -> None:
    is_there = asyncio.Event()

    async def price(_context: ToolContext) -> int:
        """Look up a price."""
        if not is_there.is_set():
            raise TimeoutError
        return 10

    parley.app.tools.mcp.offer([Tool(price, Permission.USER, read_only=True, module="shop")])
    await watch(parley, tool_name="shop.price", comparison="below", value=20)
    job = await until_checked(parley, 1)
    assert (job.status, "shop.price" in job.error) == ("active", True)

    is_there.set()
    await parley.sql(CHECK_NOW)

    assert "shop.price says:\n10" in (await parley.platform.wait_for(2))[1]
