"""`parley run` as a process of its own, and callers of its HTTP API."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

import httpx

from shared.db.database import Address
from shared.settings import Settings
from tests.support.chat_scene import child_environment
from tests.support.eventually import PATIENCE
from tests.support.forks import get_command
from tests.support.source_tree import ROOT

TOKEN = "the token of the test"


@dataclass
class Serving:
    """A running `parley run`: its process, what it has said, and a client with the token."""

    process: asyncio.subprocess.Process
    lines: list[str]
    client: httpx.AsyncClient

    async def ask(self, event_id: str, content: str = "hello", user: str = "ann") -> httpx.Response:
        """Post a message and return the response."""
        body = {
            "platform": "test",
            "platform_user_id": user,
            "platform_channel_id": f"dm-{event_id}",
            "platform_event_id": event_id,
            "content": content,
        }
        return await self.client.post("/v1/messages", json=body)

    async def ask_until_answered(self, event_id: str, **fields: str) -> dict[str, Any]:
        """Post the message again as long as the answer is 503, as `Retry-After` says."""
        while True:
            with suppress(httpx.TransportError):
                response = await self.ask(event_id, **fields)
                if response.status_code == 200:
                    answer: dict[str, Any] = response.json()
                    return answer
                assert response.status_code == 503, response.text
            await asyncio.sleep(0.5)

    async def stop(self, seconds: float) -> int:
        """Send SIGTERM and return the status; fails if the process goes on for longer than `seconds`."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), seconds)


@asynccontextmanager
async def serving(settings: Settings, address: Address, home: Path, **more: str) -> AsyncIterator[Serving]:
    """Start `parley run` on this database and wait until it says that it is ready; it ends with the block."""
    environment = child_environment(settings, address, home) | {"API_TOKEN": TOKEN, "PORT": "0", **more}
    process = await asyncio.create_subprocess_exec(
        *get_command(),
        "run",
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **environment},
        stdout=PIPE,
        stderr=PIPE,
    )
    reading: list[asyncio.Task[None]] = []
    try:
        async with asyncio.timeout(PATIENCE):
            lines = await _read_start(process)
        reading = [asyncio.create_task(_drain(stream)) for stream in (process.stdout, process.stderr)]
        [base] = re.findall(r"API +(http://[^/]+)/v1", "\n".join(lines))
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=base, headers=headers, timeout=PATIENCE) as client:
            yield Serving(process, lines, client)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await asyncio.gather(*reading, return_exceptions=True)


async def _read_start(process: asyncio.subprocess.Process) -> list[str]:
    assert process.stdout is not None
    assert process.stderr is not None
    lines: list[str] = []
    while line := (await process.stdout.readline()).decode():
        lines.append(line.rstrip())
        if "Ctrl+C stops it" in line:
            return lines
    raise AssertionError((await process.stderr.read()).decode())


async def _drain(stream: asyncio.StreamReader | None) -> None:
    # A full pipe would block the process.
    while stream is not None and await stream.read(65536):
        pass


async def read_address(door: asyncio.subprocess.Process) -> str:
    """Return where a door listens, as soon as it says so."""
    assert door.stdout is not None
    async with asyncio.timeout(PATIENCE):
        while not (found := re.search(r"API +(http://[^/]+)/v1", (await door.stdout.readline()).decode())):
            pass
    return found[1]
