"""An MCP server written with the official SDK, like its examples: a separate program.

It uses stdio, or with `--port 9200` streamable HTTP at /mcp.
"""

import argparse
import asyncio
import os
from typing import Any

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("stand-in")


@server.tool()
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def describe(name: str, depth: int = 0) -> dict[str, Any]:
    """Describe a thing."""
    return {"name": name, "depth": depth, "file_id": "none"}


@server.tool()
def repeat(text: str, times: int) -> str:
    """Say a text many times over."""
    return text * times


@server.tool()
def environment() -> dict[str, str]:
    """Return every variable that this program was given."""
    return dict(os.environ)


@server.tool()
def pid() -> int:
    """Return this program's id."""
    return os.getpid()


@server.tool()
def refuse(reason: str) -> str:
    """Refuse for this reason."""
    raise ToolError(reason)


@server.tool()
def picture() -> Image:
    """Return a picture."""
    return Image(data=b"\x89PNG" + bytes(2996), format="png")


@server.tool()
async def hang() -> str:
    """Never come back."""
    await asyncio.Event().wait()
    return ""


@server.tool()
def leave() -> str:
    """End this program in the middle of the call."""
    os._exit(1)


@server.tool(name="get time!", description="Tell the time.\u200b\x07" + " It is always noon." * 100)
def get_time() -> str:
    """Return the time."""
    return "noon"


@server.tool()
async def reword(context: Context, description: str) -> str:
    """Give the tool `add` another description, and notify the clients."""
    server.remove_tool("add")
    server.add_tool(add, description=description)
    await context.notify_tools_changed()
    await context.session.send_tool_list_changed()
    return "done"


@server.tool()
async def forget_tool(context: Context, name: str) -> str:
    """Take a tool away."""
    server.remove_tool(name)
    await context.notify_tools_changed()
    return "done"


def main() -> None:
    """Serve until the other side is gone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    port = parser.parse_args().port
    if port is None:
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=port)


if __name__ == "__main__":
    main()
