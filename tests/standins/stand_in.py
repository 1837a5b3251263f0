"""What the stand-ins share: a server on loopback, and tests that wait until something has changed."""

import asyncio
import os
from collections.abc import Callable
from typing import Any, Self

from aiohttp import web


def latency() -> float:
    """Return the seconds by which a platform's new stand-in delays each answer of its API.

    `STANDIN_LATENCY_MS=300 pytest tests/adapters/slack` slows a whole run.
    """
    return int(os.environ.get("STANDIN_LATENCY_MS", "0")) / 1000


class StandIn:
    """A server, open as long as its `async with` block; port 0 chooses a free one."""

    def __init__(self, server: web.Server, port: int, *, shutdown_timeout: float = 0.2) -> None:
        self.changed = asyncio.Condition()
        self._port = port
        self._runner = web.ServerRunner(server, shutdown_timeout=shutdown_timeout)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=1024).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()
        await self._runner.cleanup()

    async def close(self) -> None:
        """End what still runs, before the server does."""

    @property
    def base(self) -> str:
        """Return the address of the server."""
        return f"http://127.0.0.1:{self._port}"

    async def tell(self) -> None:
        """Let those who wait for a change look again."""
        async with self.changed:
            self.changed.notify_all()


class ChatStandIn(StandIn):
    """A chat platform; each answer of its API takes `latency` seconds."""

    def __init__(self, server: web.Server, port: int) -> None:
        super().__init__(server, port)
        self.latency = latency()

    async def until(self, happened: Callable[[], Any], seconds: float = 90) -> Any:
        """Wait until `happened` returns something, and return that."""
        async with asyncio.timeout(seconds), self.changed:
            return await self.changed.wait_for(happened)
