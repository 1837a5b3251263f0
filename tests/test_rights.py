"""Rights are asked again when calls are about to run: what was taken away while the model thought is not used."""

from typing import Any

import pytest

from shared.messages import Permission, PlatformContext
from shared.tools import Tool, ToolContext
from tests.standins.openai_api import Answer
from tests.standins.openai_api.script import Body
from tests.support.office import calls
from tests.support.parley import Parley

POST = ("wall__post", {"text": "hello"})
ROLE = "INSERT INTO role_grants (platform, server, role, permission_level) VALUES ('test', 'acme', '7', 'admin')"
PERSONA = """
INSERT INTO personas (name, system_prompt, is_default, allowed_modules) VALUES ('A', 'Help.', true, '["wall"]')
"""


def give_wall(parley: Parley, requires: Permission) -> list[str]:
    """Offer a tool that posts, and return the list of its posts."""
    posts: list[str] = []

    async def post(_context: ToolContext, text: str) -> str:
        """Post a text."""
        posts.append(text)
        return "posted"

    parley.app.tools.mcp.offer([Tool(post, requires, module="wall")])
    return posts


async def post_while(parley: Parley, statement: str, **fields: Any) -> Any:
    """Let the model post something, and run a statement while it thinks; return what the call came to."""

    async def think(_body: Body, _number: int) -> Answer:
        await parley.sql(statement)
        parley.model.play([Answer("Done.")])
        return calls(POST)

    parley.model.play(think)
    reply = await parley.ask("post it", **fields)
    return reply.tool_calls_made[0].result


async def test_an_admin_who_is_demoted_in_mid_turn_uses_no_tool_of_admins(parley: Parley) -> None:
    posts = give_wall(parley, Permission.ADMIN)
    await parley.ask("hello")
    await parley.sql("UPDATE users SET permission_level = 'admin', token_budget_monthly = NULL")
    assert await post_while(parley, "SELECT 1") == "posted"

    result = await post_while(parley, "UPDATE users SET permission_level = 'user'")

    assert (posts, result["error"]) == (["hello"], True)


async def test_a_role_that_loses_its_grant_in_mid_turn_counts_no_more(parley: Parley) -> None:
    posts = give_wall(parley, Permission.ADMIN)
    around = {"server": "acme", "platform_context": PlatformContext(role_ids=("7",))}
    await parley.sql(ROLE)
    await parley.ask("hello", **around)
    await parley.sql("UPDATE users SET permission_level = 'user', token_budget_monthly = NULL")
    assert await post_while(parley, "SELECT 1", **around) == "posted"

    result = await post_while(parley, "DELETE FROM role_grants", **around)

    assert (posts, result["error"]) == (["hello"], True)


@pytest.mark.parametrize(
    "statement",
    ["UPDATE personas SET allowed_modules = '[]'", "UPDATE users SET permission_level = 'guest'"],
)
async def test_a_module_that_the_persona_loses_in_mid_turn_is_not_used(parley: Parley, statement: str) -> None:
    posts = give_wall(parley, Permission.USER)
    await parley.ask("hello")
    await parley.sql(PERSONA)
    await parley.sql("UPDATE users SET permission_level = 'user', token_budget_monthly = NULL")

    result = await post_while(parley, statement)

    assert (posts, result["error"]) == ([], True)
