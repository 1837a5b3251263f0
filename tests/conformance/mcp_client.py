"""`python -m tests.conformance.mcp_client URL`: our client connects, lists the tools, and calls each."""

import asyncio
import sys
from collections.abc import Sequence

from agent.tools.mcp.connections import Connection, Listed, Server
from shared.messages import Permission

ARGUMENTS = {"add_numbers": {"a": 5, "b": 3}}
SECONDS = 20.0


async def call_all(url: str) -> None:
    """Call every tool that the server at this address lists."""
    listing: asyncio.Future[Sequence[Listed]] = asyncio.get_running_loop().create_future()

    async def on_listed(_server: Server, tools: Sequence[Listed]) -> None:
        if not listing.done():
            listing.set_result(tools)

    async def on_lost(_server: Server, reason: str) -> None:
        if not listing.done():
            listing.set_exception(RuntimeError(reason))

    connection = Connection(to_server(url), on_listed, on_lost)
    try:
        async with asyncio.timeout(SECONDS):
            for tool in await listing:
                await connection.call(tool.name, ARGUMENTS.get(tool.name, {}), {})
    finally:
        await connection.close()


def to_server(url: str) -> Server:
    """Return a row of `mcp_servers` with this address."""
    return Server(
        id=1,
        name="suite",
        transport="http",
        command=None,
        args=(),
        env={},
        url=url,
        headers={},
        permission=Permission.GUEST,
        read_only_tools=(),
        tells_nobody_tools=(),
        timeout_seconds=SECONDS,
        tells_user=False,
        reads_untrusted=True,
        reads_private=True,
    )


if __name__ == "__main__":
    asyncio.run(call_all(sys.argv[1]))
