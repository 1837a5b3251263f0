"""Strict stand-ins for outside services: they speak the real wire protocols on loopback."""

from aiohttp import web


async def listen(runner: web.ServerRunner, port: int, *, backlog: int = 512) -> int:
    """Start a server on loopback; port 0 chooses a free one. Returns the port."""
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=backlog).start()
    chosen: int = runner.addresses[0][1]
    return chosen
