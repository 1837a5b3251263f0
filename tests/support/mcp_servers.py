"""Adds MCP servers as an admin does, and lets the model call their tools."""

import json
from collections.abc import Callable
from typing import Any

from shared.messages import AgentResponse
from tests.standins.openai_api import Answer
from tests.support.eventually import eventually
from tests.support.forks import get_command
from tests.support.parley import Parley

STAND_IN = "tests.standins.mcp_server"
ADD = """
INSERT INTO mcp_servers (name, transport, command, args, timeout_seconds, required_permission, reads_untrusted)
VALUES (:name, 'stdio', :command, CAST(:args AS jsonb), :seconds, 'guest', :reads_untrusted)
"""


async def add_server(
    parley: Parley, name: str = "far", args: tuple[str, ...] | None = None, seconds: float = 60, **columns: Any
) -> None:
    """Add a stdio server as an admin does who knows that no stranger writes into its results.

    So its calls need no yes; with `reads_untrusted` the row is the usual one. It is the stand-in, unless Python has
    other arguments.
    """
    reads_untrusted = columns.pop("reads_untrusted", False)
    await parley.sql("INSERT INTO personas (name, system_prompt, is_default) VALUES ('P', 'Be brief.', true)"
                    " ON CONFLICT DO NOTHING")  # fmt: skip
    command, *stand_in = get_command(STAND_IN)
    arguments = json.dumps(stand_in if args is None else args)
    # At once: between two statements its tools may be offered as they are not meant.
    values = {"command": command, "args": arguments, "seconds": seconds, "reads_untrusted": reads_untrusted}
    await parley.sql(ADD, name=name, **values)
    for column, value in columns.items():
        await parley.sql(f"UPDATE mcp_servers SET {column} = CAST(:value AS text)", value=value)  # noqa: S608


async def add_far(parley: Parley, **columns: Any) -> None:
    """Add the stand-in as the server `far`, and wait until its tools are there."""
    await add_server(parley, **columns)
    await until(parley, lambda names: "far.add" in names)


def names(parley: Parley) -> set[str]:
    """Return the tools of the toolbox by name."""
    return {tool.name for tool in parley.app.toolbox.tools}


async def until(parley: Parley, is_so: Callable[[set[str]], bool]) -> None:
    """Wait until this is true for the names of the tools."""

    async def check() -> bool:
        return is_so(names(parley))

    await eventually(check)


async def play(parley: Parley, *calls: tuple[str, dict[str, Any]]) -> AgentResponse:
    """Let the model make these calls in one answer."""
    parley.model.play([Answer(tool_calls=list(calls)), Answer("done")])
    return await parley.ask("go on")


async def result(parley: Parley, tool: str, /, **arguments: Any) -> Any:
    """Return the result of one call by the model."""
    return (await play(parley, (tool, arguments))).tool_calls_made[0].result


async def told_error(parley: Parley) -> str:
    """Wait until a server is off, and return why."""
    return str(await eventually(lambda: parley.value("SELECT max(last_error) FROM mcp_servers")))
