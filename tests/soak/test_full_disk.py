"""The disk of the embedded Postgres is full for a while: every message is answered soon after there is room again."""

import asyncio
import errno
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest

from tests.bench.children import model_environment, read_line, running_child
from tests.bench.statements import address_of
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body, results_so_far
from tests.support.chat_scene import COMMAND
from tests.support.connections import connected
from tests.support.loopback import free_port

pytestmark = pytest.mark.soak
CALLERS = 12
DISK_MEGABYTES = 400
FULL_SECONDS, RECOVERY_SECONDS = 15.0, 30.0
WAITING = "SELECT count(*) FROM inbox WHERE status IN ('waiting', 'claimed')"
UNANSWERED = "SELECT count(*) FROM turns WHERE status <> 'answered'"
RESERVATIONS = "SELECT count(*) FROM budget_reservations"
RESERVED = "SELECT coalesce(sum(tokens_reserved), 0)::int FROM users"
# Messages in the log of the server until it has no room for the log's next file.
FILL_LOG = "SELECT pg_logical_emit_message(false, 'soak', repeat('x', 1000000))"


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """The folder of an installation, on a small disk of its own."""
    with tempfile.TemporaryDirectory(prefix="parley-disk-") as folder:
        size = f"size={DISK_MEGABYTES}m,mode=0755"
        mounting = subprocess.run(
            ["/usr/bin/env", "mount", "-t", "tmpfs", "-o", size, "tmpfs", folder],
            capture_output=True,
            text=True,
            check=False,
        )
        assert mounting.returncode == 0, f"this soak mounts a tmpfs, for which it must run as root: {mounting.stderr}"
        try:
            yield Path(folder)
        finally:
            subprocess.run(["/usr/bin/env", "umount", "--lazy", folder], check=True)  # our own folder


@dataclass
class Callers:
    """People who write by HTTP, each the next message after the answer to the last; what was wrong with an answer."""

    client: httpx.AsyncClient
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    answered: int = 0
    wrong: list[Any] = field(default_factory=list)

    async def write(self, number: int) -> None:
        """Write until the end."""
        while not self.ending.is_set():
            body = {
                "platform": "soak",
                "platform_user_id": f"caller-{number}",
                "platform_channel_id": f"dm-{number}",
                "platform_event_id": uuid4().hex,
                "content": "note this",
            }
            answer = await self.ask(body)
            self.answered += 1
            if answer["error"] is not None or answer["content"] != "It is noted.":
                self.wrong.append(answer)

    async def ask(self, body: dict[str, str]) -> Any:
        """Return the answer; a message that is not accepted, as the answer says, is sent again."""
        while True:
            response = await self.client.post("/v1/messages", json=body)
            if response.status_code == httpx.codes.OK:
                return response.json()
            if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                self.wrong.append((response.status_code, response.text))
            await asyncio.sleep(float(response.headers.get("Retry-After", 1)))


@asynccontextmanager
async def running_parley(home: Path, model: OpenAIStub, log: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Start `parley run` with its embedded Postgres in this folder."""
    port = free_port()
    env = model_environment(model, home) | {
        "PORT": str(port),
        "API_TOKEN": "soak-token",
        "DEFAULT_GUEST_TOKEN_BUDGET": "1000000000",
    }
    headers = {"Authorization": "Bearer soak-token"}
    async with AsyncExitStack() as stack:
        child = await stack.enter_async_context(running_child(*COMMAND, "run", env=env, errors=log))
        while "is ready" not in await read_line(child, 120):
            pass
        yield await stack.enter_async_context(
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=300)
        )


async def keep_full(filler: Path) -> None:
    """Take all room on the disk, again and again, because the server frees some of its own."""
    with filler.open("ab", buffering=0) as file:
        while True:
            fill(file.fileno())
            await asyncio.sleep(0.05)


def fill(file: int) -> None:
    """Write until there is no room."""
    try:
        while os.write(file, bytes(4096)):
            pass
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


async def fill_log(home: Path) -> None:
    """Write into the log of the server until it stops, because the log can't go on."""
    with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        async with connected(address_of(home)) as owner:
            while True:
                await owner.execute(FILL_LOG)


def answer(body: Body, _number: int) -> Answer:
    """Store something, so that the turn writes before and after each call."""
    if results_so_far(body):
        return Answer("It is noted.", delay=0.3)
    return Answer(tool_calls=[("knowledge__list_memories", {})], delay=0.3)


@pytest.mark.parametrize("stops", [False, True], ids=["full", "full-until-it-stops"])
async def test_a_disk_that_was_full_fails_nobody_and_leaves_nothing_reserved(
    small_disk: Path, tmp_path: Path, model: OpenAIStub, stops: bool
) -> None:
    model.play(answer)
    log, filler = tmp_path / "log", small_disk / "filler"
    async with running_parley(small_disk, model, log) as client:
        callers = Callers(client)
        writing = [asyncio.create_task(callers.write(number)) for number in range(CALLERS)]
        while callers.answered < 2 * CALLERS:
            await asyncio.wait(writing, timeout=0.2)
        filling = asyncio.create_task(keep_full(filler))
        if stops:
            await asyncio.sleep(1)
            await fill_log(small_disk)
        await asyncio.sleep(FULL_SECONDS)
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)
        server_log = (small_disk / "postgres" / "log").read_text()
        filler.unlink()
        callers.ending.set()
        _, late = await asyncio.wait(writing, timeout=RECOVERY_SECONDS)
        logs = log.read_text()[-6000:] + server_log[-3000:]

        # Otherwise the server had room of its own for all that was written, and nothing was shown.
        assert "No space left on device" in server_log, logs
        assert not stops or "postgres_restarting" in log.read_text(), logs
        assert (callers.wrong, len(late)) == ([], 0), logs
        assert await find_held(small_disk) == (0, 0, 0, 0)


async def find_held(home: Path) -> tuple[int, ...]:
    """Return how many messages wait, turns did not answer, reservations are left, and tokens are reserved."""
    async with connected(address_of(home)) as owner:
        return tuple([await owner.fetchval(query) for query in (WAITING, UNANSWERED, RESERVATIONS, RESERVED)])
