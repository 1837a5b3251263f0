"""Tools that do not fit into a prompt are found by search, and called with the rights of every other tool."""

from typing import Any

from agent.llm.completions import count_prompt
from agent.tools.search import MAX_OFFERED_TOKENS, MAX_OFFERED_TOOLS
from shared.messages import Permission
from shared.tools import Tool, ToolContext
from tests.standins.openai_api import Answer
from tests.support.office import calls
from tests.support.parley import Parley


def many(count: int, module: str = "big", *, chars: int = 0, requires: Permission = Permission.GUEST) -> list[Tool]:
    """Return tools of one server, each with a description of this length."""

    def build(number: int) -> Tool:
        async def run(_context: ToolContext, amount: int = 1) -> dict[str, Any]:
            return {"number": number, "amount": amount}

        run.__name__ = f"invoice_{number}"
        run.__doc__ = f"Handle invoice {number}. {'x' * chars}"
        return Tool(run, requires, module=module)

    return [build(number) for number in range(count)]


async def allow_all(parley: Parley) -> None:
    await parley.sql("INSERT INTO personas (name, system_prompt, is_default) VALUES ('All', 'Help.', true)")
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")


def tools_of(parley: Parley) -> list[str]:
    return [tool["function"]["name"] for tool in parley.model.requests[-1].body["tools"]]


async def test_a_server_with_too_many_tools_is_searched_and_small_ones_are_offered(parley: Parley) -> None:
    await parley.ask("hello")
    await allow_all(parley)
    parley.app.tools.mcp.offer([*many(274), *many(5, "small")])
    parley.app.toolbox.rank({f"small.invoice_{number}": 9 for number in range(5)}, ())
    request = {"name": "big__invoice_117", "arguments": {"amount": 3}}
    find = ("find_tool", {"query": "invoice_117"})
    parley.model.play([calls(find), calls(("tools__use_tool", request)), Answer("Ok.")])

    reply = await parley.ask("handle invoice 117 three times")

    assert len(tools_of(parley)) <= MAX_OFFERED_TOOLS
    assert count_prompt(parley.model.requests[-1].body["tools"]) <= MAX_OFFERED_TOKENS
    assert {"small__invoice_4", "tools__find_tool", "tools__use_tool"} <= set(tools_of(parley))
    assert "big__invoice_117" not in tools_of(parley)
    search, usage = reply.tool_calls_made
    assert (search.tool, search.result["tools"][0]["name"]) == ("tools.find_tool", "big__invoice_117")
    assert search.result["tools"][0]["parameters"]["properties"] == {"amount": {"default": 1, "type": "integer"}}
    assert (usage.tool, usage.args, usage.result) == ("big.invoice_117", {"amount": 3}, {"number": 117, "amount": 3})


async def test_few_tools_with_long_descriptions_are_searched_too(parley: Parley) -> None:
    await parley.ask("hello")
    await allow_all(parley)
    parley.app.tools.mcp.offer(many(20, chars=3 * MAX_OFFERED_TOKENS // 20))
    await parley.ask("hello")

    assert not [name for name in tools_of(parley) if name.startswith("big__")]


async def test_search_and_use_give_no_tool_that_the_person_may_not_use(parley: Parley) -> None:
    await parley.ask("hello")
    await allow_all(parley)
    parley.app.tools.mcp.offer([*many(130), *many(3, "secret", requires=Permission.ADMIN)])
    use = {"name": "secret__invoice_1", "arguments": {}}
    parley.model.play([calls(("tools__find_tool", {"query": "secret"}), ("tools__use_tool", use)), Answer("No.")])

    reply = await parley.ask("use it")

    search, usage = [call.result for call in reply.tool_calls_made]
    assert search["tools"] == []
    assert "big" in search["servers"]
    assert "secret" not in search["servers"]
    assert usage["message"].startswith("There is no tool 'secret__invoice_1' here.")


async def test_everything_is_offered_as_it_is_while_it_fits(parley: Parley) -> None:
    await parley.ask("hello")
    assert tools_of(parley)
    assert "tools__find_tool" not in tools_of(parley)


async def test_of_many_tools_the_most_used_ones_stay(parley: Parley) -> None:
    await parley.ask("hello")
    await parley.sql("UPDATE users SET permission_level = 'user', token_budget_monthly = NULL")
    await parley.ask("hello")
    unused = tools_of(parley)
    parley.app.toolbox.rank({"weather.get_weather": 5, "scheduler.list_jobs": 3}, ())
    await parley.ask("hello")
    first = tools_of(parley)
    await parley.ask("hello")

    # What a guest has is what most people use.
    assert {"knowledge__remember", "file_manager__create_document", "calculator__calculate"} <= set(unused)
    assert {"tools__find_tool", "tools__use_tool"} <= set(unused)
    assert len(first) <= MAX_OFFERED_TOOLS
    assert count_prompt(parley.model.requests[-1].body["tools"]) <= MAX_OFFERED_TOKENS
    assert [name for name in first if name.startswith(("weather__", "scheduler__"))]
    assert tools_of(parley) == first
