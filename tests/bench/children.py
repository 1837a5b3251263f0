"""Starts, monitors and ends the programs of the benchmark, each by its own process id."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import aiohttp
import asyncpg

from tests.bench.load import Load, Run, drive
from tests.bench.model import mark
from tests.bench.statements import address_of
from tests.standins.openai_api import OpenAIStub
from tests.support.connections import connected, run_as_owner
from tests.support.loopback import free_port
from tests.support.processes import list_children

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "bench-token-of-one-run"
START_SECONDS = 60
RUN_SECONDS = 60
# Messages that a client sends in one place before it uses a new one; on average half of them are history.
TURNS_A_PLACE = 20
TICKS = os.sysconf("SC_CLK_TCK")


def model_environment(model: OpenAIStub, home: Path) -> dict[str, str]:
    """Return the settings of a process that keeps its files in `home` and asks the stand-in model."""
    return {
        "PARLEY_HOME": str(home),
        "LLM_MODELS": "openai/stub",
        "OPENAI_BASE_URL": model.base_url,
        "OPENAI_API_KEY": "sk-bench",
    }


def list_forks(pid: int) -> list[int]:
    """Return the process of a program and its forks, not other programs that it has started."""
    command = _read(pid, "cmdline")
    return [pid, *(child for child in list_children(pid) if _read(child, "cmdline") == command)]


def list_servers(home: Path) -> list[int]:
    """Return the processes of the embedded Postgres in this folder."""
    postmaster = int((home / "postgres" / "postmaster.pid").read_text().split()[0])
    return [postmaster, *list_children(postmaster)]


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a program so far, its threads and forks included."""
    rows = [_read(fork, "stat").rpartition(")")[2].split() for fork in list_forks(pid)]
    return sum(int(fields[11]) + int(fields[12]) for fields in rows if fields) / TICKS


def _read(pid: int, name: str) -> str:
    # Postgres starts and ends processes all the time: what has ended since it was listed has nothing.
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/{name}").read_text()
    return ""


def memory_mb(pid: int) -> float:
    """Return the memory of a process in megabytes."""
    return _read_mb(Path(f"/proc/{pid}/status"), "VmRSS:")


def shared_memory_mb(pid: int) -> float:
    """Return the memory of a program and its forks in megabytes; what several processes hold counts once (PSS)."""
    return sum(_read_mb(Path(f"/proc/{fork}/smaps_rollup"), "Pss:") for fork in list_forks(pid))


def _read_mb(file: Path, name: str) -> float:
    return next(int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith(name)) / 1024


@asynccontextmanager
async def running_child(
    *command: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None, errors: Path | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a program; at the end of the block it is terminated, and killed when it does not stop."""
    with (errors or Path(os.devnull)).open("ab") as log:
        child = await asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log if errors else None,
            limit=64 * 1024 * 1024,
        )
    try:
        yield child
    finally:
        await _end(child)


async def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is not None:
        return
    child.terminate()
    try:
        await asyncio.wait_for(child.wait(), 30)
    except TimeoutError:
        child.kill()
        await child.wait()


async def read_line(child: asyncio.subprocess.Process, seconds: float) -> str:
    """Return the next line that the program prints; raises `RuntimeError` when it ends or prints nothing."""
    assert child.stdout is not None
    line = await asyncio.wait_for(child.stdout.readline(), seconds)
    if not line:
        raise RuntimeError("a program of the bench ended before its time")
    return line.decode()


@asynccontextmanager
async def running_model() -> AsyncIterator[tuple[str, int]]:
    """Start the model; yields its base URL and its process id."""
    async with running_child(sys.executable, "-m", "tests.bench.model") as child:
        yield (await read_line(child, START_SECONDS)).strip(), child.pid


@dataclass(frozen=True)
class Floor:
    child: asyncio.subprocess.Process

    async def play(self, load: Load, ask: str = "http") -> Run:
        assert self.child.stdin is not None
        fields = {name: getattr(load, name) for name in Load.__slots__}
        self.child.stdin.write(json.dumps({"load": fields, "ask": ask}).encode() + b"\n")
        answer = json.loads(await read_line(self.child, RUN_SECONDS))
        return Run(tuple(answer["latencies"]), answer["seconds"], answer["cpu"])


@asynccontextmanager
async def running_floor(dsn: str, base_url: str) -> AsyncIterator[Floor]:
    """Start the floor program."""
    async with running_child(sys.executable, "-m", "tests.bench.floor", dsn, base_url) as child:
        yield Floor(child)


class Parley:
    """A real `parley run`, used over HTTP."""

    def __init__(self, pid: int, home: Path, url: str, session: aiohttp.ClientSession, ready_seconds: float) -> None:
        self.pid = pid
        self.home = home
        self.ready_seconds = ready_seconds
        self.ready_mb = memory_mb(pid)
        self._messages = f"{url}/v1/messages"
        self._session = session
        self._taken = 0

    async def say(self, client: int, place: str, content: str) -> None:
        """Send one message and wait for its answer; raises `RuntimeError` for an error."""
        async with self._session.post(self._messages, json=to_body(client, place, content)) as response:
            answer = await response.json()
        if response.status != 200 or answer["error"] is not None or not answer["finished"]:
            raise RuntimeError(f"a turn of the bench failed: {answer}")

    async def watch(self, client: int, place: str, content: str) -> None:
        """Send one message and read its events to the last one; raises `RuntimeError` when the turn fails."""
        last = b""
        headers = {"Accept": "text/event-stream"}
        async with self._session.post(
            self._messages, json=to_body(client, place, content), headers=headers
        ) as response:
            async for line in response.content:
                last = line if line.startswith(b"data:") else last
        if b'"finished":true' not in last:
            raise RuntimeError(f"a turn of the bench failed: {last.decode()}")

    async def abandon(self, client: int, place: str, content: str) -> float:
        """Send one message, close the request during the model call, and return the seconds until the turn ends."""
        request = asyncio.create_task(self.say(client, place, content))
        async with connected(address_of(self.home)) as owner:
            await until_one(owner, "SELECT count(*) FROM turns WHERE status = 'running'")
            await asyncio.sleep(0.1)
            start = time.perf_counter()
            request.cancel()
            await until_one(owner, "SELECT count(*) = 0 FROM turns WHERE status = 'running'")
            return time.perf_counter() - start

    async def beside_flood(
        self, messages: int, turns: int, content: str
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the milliseconds of one client's turns, without and beside another client's messages.

        The other client sends all messages at once, each in a place of its own, and leaves at the end.
        """

        async def turn(_client: int, count: int) -> None:
            await self.say(1, f"quiet-{count // TURNS_A_PLACE}", mark())

        await asyncio.gather(self.say(0, "flood", mark()), turn(1, 0))
        await self.lift_budgets()
        usual = await drive(Load(clients=1, turns_each=turns), turn)
        flood = [asyncio.create_task(self.say(0, f"flood-{number}", content)) for number in range(messages)]
        beside = await drive(Load(clients=1, turns_each=turns), turn)
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
        return usual.latencies, beside.latencies

    async def play(self, load: Load) -> Run:
        """Run the clients' turns, after one uncounted turn each."""
        content = mark(load.tools, load.delay)
        offset = self._taken
        self._taken += load.turns_each + TURNS_A_PLACE

        async def turn(client: int, count: int) -> None:
            await self.say(client, f"place-{(offset + count) // TURNS_A_PLACE}", content)

        async with asyncio.timeout(RUN_SECONDS):
            await drive(replace(load, turns_each=1), turn)
            await self.lift_budgets()
            cpu = cpu_seconds(self.pid)
            run = await drive(load, turn)
        return replace(run, cpu=cpu_seconds(self.pid) - cpu)

    async def lift_budgets(self) -> None:
        """Remove the limits of all users."""
        lifted = "UPDATE users SET token_budget_monthly = NULL WHERE token_budget_monthly IS NOT NULL"
        await run_as_owner(address_of(self.home), lifted)


def to_body(client: int, place: str, content: str) -> dict[str, str]:
    return {
        "platform": "bench",
        "platform_user_id": f"client-{client}",
        "platform_channel_id": f"channel-{client}",
        "platform_thread_id": place,
        "content": content,
    }


async def until_one(owner: asyncpg.Connection, query: str) -> None:
    """Wait until a query returns a truthy value."""
    async with asyncio.timeout(RUN_SECONDS):
        while not await owner.fetchval(query):  # noqa: ASYNC110  # another process is watched, from outside
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running_parley(
    home: Path, base_url: str, workers: int = 1, more: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[Parley]:
    """Start `parley run` in this folder, with the embedded Postgres unless `more` names another; its log goes there."""
    port = free_port()
    env = {
        "PARLEY_HOME": str(home),
        "PORT": str(port),
        "WORKERS": str(workers),
        "API_TOKEN": TOKEN,
        "LLM_MODELS": "openai/bench",
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": "bench",
        **more,
    }
    start = time.perf_counter()
    command = (str(Path(sys.executable).with_name("parley")), "run")
    async with (
        running_child(*command, cwd=home, env=env, errors=home / "parley.log") as child,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=3), headers={"Authorization": f"Bearer {TOKEN}"}
        ) as session,
    ):
        while "is ready" not in await read_line(child, START_SECONDS):
            pass
        yield Parley(child.pid, home, f"http://127.0.0.1:{port}", session, time.perf_counter() - start)
