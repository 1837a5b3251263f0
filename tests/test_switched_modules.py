"""Modules that an admin switches off, or keeps for some: what holds for the next offer, and for turns that run."""

import asyncio
from typing import Any

import asyncpg
import pytest

from shared.db.database import Address
from shared.db.roles import ADMIN_ROLE
from tests.standins.openai_api import Answer
from tests.standins.openai_api.script import Body
from tests.support.office import calls
from tests.support.parley import Parley
from tests.support.psql import psql_session

WAITS = "SELECT EXISTS (SELECT FROM pg_locks WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)))"
SUM = ("calculator__calculate", {"expression": "6 * 7"})


async def ask_for_sum(parley: Parley, *statements: str, **fields: Any) -> Any:
    """Let the model calculate, and run statements while it thinks; return what the call came to."""

    async def think(_body: Body, _number: int) -> Answer:
        for statement in statements:
            await parley.sql(statement)
        parley.model.play([Answer("Done.")])
        return calls(SUM)

    parley.model.play(think)
    reply = await parley.ask("how much?", **fields)
    return reply.tool_calls_made[0].result


def offer(parley: Parley) -> set[str]:
    """Return the names of the tools that the last request of the model offered."""
    return {tool["function"]["name"] for tool in parley.model.requests[-1].body.get("tools", ())}


async def test_a_module_that_is_off_is_not_in_the_very_next_offer_and_comes_back(parley: Parley) -> None:
    await parley.ask("hello")
    assert "calculator__calculate" in offer(parley)

    await parley.sql("SELECT admin.set_module('calculator', is_enabled => false)")
    await parley.ask("hello")
    assert "calculator__calculate" not in offer(parley)

    await parley.sql("SELECT admin.undo((SELECT max(id) FROM audit_log))")
    await parley.ask("hello")
    assert "calculator__calculate" in offer(parley)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("is_enabled => false", "an admin has switched its module off"),
        ("permission => 'user'", "needs the permission user"),
    ],
)
async def test_a_call_of_a_turn_that_runs_is_refused_with_the_reason(parley: Parley, change: str, reason: str) -> None:
    await parley.ask("hello")
    assert "error" not in str(await ask_for_sum(parley, "SELECT 1"))

    result = await ask_for_sum(parley, f"SELECT admin.set_module('calculator', {change})")

    assert result["error"] is True
    assert result["message"] == f"There is no tool 'calculator.calculate' here. Why: {reason}."


async def test_a_raised_permission_holds_for_those_below_it_and_lowers_none(parley: Parley) -> None:
    await parley.ask("hello", user="ann")
    await parley.ask("hello", user="bob")
    await parley.sql("""
        UPDATE users SET permission_level = 'user', token_budget_monthly = NULL WHERE id = (
            SELECT user_id FROM user_platform_links WHERE platform_user_id = 'ann')
    """)
    await parley.sql("SELECT admin.set_module('calculator', permission => 'user')")
    await parley.ask("hello", user="bob")
    assert "calculator__calculate" not in offer(parley)
    await parley.ask("hello", user="ann")
    assert "calculator__calculate" in offer(parley)

    # For everybody with the permission that a tool itself needs, and no less.
    needs_user = {tool.wire_name for tool in parley.app.toolbox.tools if tool.requires.label == "user"}
    modules = {name.partition("__")[0] for name in needs_user}
    for module in modules:
        await parley.sql("INSERT INTO modules (name) VALUES (:module)", module=module)
    await parley.ask("hello", user="bob")
    assert not needs_user & offer(parley)


async def test_an_agent_uses_no_module_that_is_switched_off_while_it_works(parley: Parley) -> None:
    await parley.sql("SELECT admin.define_agent('clerk', 'Counts.', instructions => 'Count.', tools => '{calculator}')")

    async def think(body: Body, _number: int) -> Answer:
        if "Count." not in str(body["messages"][0]["content"]):
            is_first = all(message["role"] != "tool" for message in body["messages"])
            return calls(("agents__delegate", {"agent": "clerk", "task": "Count."})) if is_first else Answer("Done.")
        if any(message["role"] == "tool" for message in body["messages"]):
            return Answer(str(body["messages"][-1]["content"]))
        await parley.sql("SELECT admin.set_module('calculator', is_enabled => false)")
        return calls(SUM)

    parley.model.play(think)
    reply = await parley.ask("how much?")

    assert "an admin has switched its module off" in str(reply.tool_calls_made[0].result)


async def test_delegation_is_a_module_too(parley: Parley) -> None:
    await parley.sql("SELECT admin.define_agent('clerk', 'Counts.', instructions => 'Count.')")
    await parley.ask("hello")
    assert "agents__delegate" in offer(parley)

    await parley.sql("SELECT admin.set_module('agents', is_enabled => false)")
    await parley.ask("hello")

    assert "agents__delegate" not in offer(parley)


async def test_an_admin_switches_modules_by_sql_and_takes_it_back(parley: Parley, address: Address) -> None:
    await parley.sql(
        "INSERT INTO known_words (kind, word) SELECT 'module', unnest(CAST('{agents,research,tools}' AS text[]))"
    )
    await parley.sql("INSERT INTO mcp_servers (name, transport, command) VALUES ('tickets', 'stdio', '/bin/true')")
    async with psql_session(address, role=ADMIN_ROLE) as psql:
        said = [
            await psql.value(f"SELECT admin.set_module('research', {arguments})")
            for arguments in (
                "is_enabled => false",
                "permission => 'admin'",
                "is_enabled => true",
                "permission => 'guest'",
            )
        ]
        assert said == [
            "the module research is off, for whom its tools say",
            "the module research is off, for admins and above",
            "the module research is on, for admins and above",
            "the module research is on, for whom its tools say",
        ]
        assert await psql.rows("SELECT name FROM modules") == []
        logged = [(row[0], row[1], row[2]) for row in await psql.rows('SELECT action, "table", name FROM admin.audit')]
        changes = [change for change in logged if change[1] == "modules"]
        assert [(action, name) for action, _, name in reversed(changes)] == [
            (action, "research") for action in ("insert", "update", "update", "delete")
        ]
        await psql.run(f"SELECT admin.undo({await psql.last()})")
        assert await psql.rows("SELECT name, required_permission FROM modules") == [("research", "admin")]

        refusals = {
            "'research', permission => 'boss'": "there is no permission 'boss'; there are: guest, user, admin, owner",
            "'resaerch', is_enabled => false": "there is no module 'resaerch'; there are: agents, research",
            "'tickets', is_enabled => false": "admin.set_mcp_server switches MCP servers",
            "'tools', is_enabled => false": "there is no module 'tools'",
            "NULL": "there is no module NULL",
        }
        for arguments, sentence in refusals.items():
            with pytest.raises(asyncpg.RaiseError) as refusal:
                await psql.run(f"SELECT admin.set_module({arguments})")
            assert sentence in str(refusal.value)


@pytest.mark.parametrize(("before", "after"), [("guest", "user"), ("user", "guest")])
async def test_what_another_admin_says_meanwhile_does_not_switch_a_module_on_again(
    parley: Parley, address: Address, before: str, after: str
) -> None:
    await parley.sql("INSERT INTO known_words (kind, word) VALUES ('module', 'research')")
    await parley.sql("SELECT admin.set_module('research', permission => :before)", before=before)
    async with psql_session(address, role=ADMIN_ROLE) as one, psql_session(address, role=ADMIN_ROLE) as other:
        await one.run("BEGIN")
        await one.run("SELECT admin.set_module('research', is_enabled => false)")
        late = asyncio.create_task(other.run(f"SELECT admin.set_module('research', permission => '{after}')"))
        while not await one.value(WAITS) and not late.done():
            pass
        await one.run("COMMIT")
        await late

        assert await one.rows("SELECT is_enabled, required_permission FROM modules") == [(False, after)]
