"""500 answers that are read live at once: how far behind the model each piece comes, and what that costs.

The readers' door and the workers are processes of their own, so that every piece goes from one process to another.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType

import aiohttp
import asyncpg

from agent.live.channels import TURNS
from shared.db.embedded.server import start_postgres
from tests.bench.children import (
    START_SECONDS,
    TICKS,
    TOKEN,
    cpu_seconds,
    list_servers,
    read_line,
    running_child,
    to_body,
)
from tests.bench.figures import Figure
from tests.bench.load import percentile
from tests.bench.model import STAMPS, STAMPS_A_SECOND, mark
from tests.bench.statements import address_of
from tests.support.chat_scene import COMMAND
from tests.support.connections import connected, run_as_owner
from tests.support.loopback import free_port

WORKERS = 2
ANSWER_SECONDS = 12
# For all of it: a machine that is too slow gets no figures.
RUN_SECONDS = 120
STAMP = re.compile(r"(\d+):(\d+\.\d{4})")
COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"


@dataclass
class Stream:
    """What one reader got: the bytes with the times at which they came."""

    chunks: list[tuple[float, bytes]] = field(default_factory=list)

    def list_deltas(self) -> list[tuple[float, str]]:
        """Return the text of each delta with its time."""
        deltas, rest = [], b""
        for came_at, chunk in self.chunks:
            *events, rest = (rest + chunk).split(b"\n\n")
            for event in events:
                name, _, payload = event.partition(b"\n")
                if name == b"event: text_delta":
                    deltas.append((came_at, json.loads(payload.removeprefix(b"data: "))["text"]))
        return deltas

    def list_delays(self) -> tuple[list[int], list[float]]:
        """Return the numbers of the model's pieces as they came, and by how many ms each was behind the model."""
        numbers, delays, text = [], [], ""
        for came_at, delta in self.list_deltas():
            text += delta
            end = 0
            for match in STAMP.finditer(text):
                numbers.append(int(match[1]))
                delays.append((came_at - float(match[2])) * 1000)
                end = match.end()
            text = text[end:]
        return numbers, delays


@dataclass(frozen=True)
class Installation:
    """A door, its workers and their Postgres."""

    door: int
    workers: int
    home: Path
    url: str

    def read_cpu(self) -> tuple[float, float, float]:
        """Return the processor seconds of door, workers and Postgres so far."""
        return cpu_seconds(self.door), cpu_seconds(self.workers), cpu_of_servers(self.home)


def cpu_of_servers(home: Path) -> float:
    """Return the processor seconds of the Postgres in this folder, of those of its processes that ended, too."""
    total = 0
    for number, pid in enumerate(list_servers(home)):
        # One that ends meanwhile is counted by the first of them.
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11 : 13 if number else 15]))
    return total / TICKS


@asynccontextmanager
async def running_installation(
    home: Path, base_url: str, more: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[Installation]:
    """Start Postgres, the door and the workers in this folder, which is there."""
    await asyncio.to_thread(start_postgres, home)
    port = free_port()
    env = {
        "PARLEY_HOME": str(home),
        "DATABASE_URL": address_of(home).libpq(as_owner=True),
        "PORT": str(port),
        "API_TOKEN": TOKEN,
        "SECRET_KEY": "bench-key-of-one-run-that-is-long-enough",
        "LLM_MODELS": "openai/bench",
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": "bench",
        "WORKERS": str(WORKERS),
        "MAX_TURNS": "1000",
        "DEFAULT_GUEST_TOKEN_BUDGET": "100000000",
        **more,
    }
    async with AsyncExitStack() as stack:
        pids = []
        for arguments in (("adapter", "web"), ("worker",)):
            child = await stack.enter_async_context(
                running_child(*COMMAND, *arguments, cwd=home, env=env, errors=home / "parley.log")
            )
            await read_line(child, START_SECONDS)
            pids.append(child.pid)
        door, workers = pids
        yield Installation(door, workers, home, url=f"http://127.0.0.1:{port}/v1/messages")


async def read(session: aiohttp.ClientSession, url: str, client: int, content: str) -> Stream:
    """Ask, and read the answer's events to their end."""
    stream = Stream()
    body, headers = to_body(client, "streams", content), {"Accept": "text/event-stream"}
    async with session.post(url, json=body, headers=headers) as response:
        async for chunk in response.content.iter_any():
            stream.chunks.append((time.monotonic(), chunk))
    if b'"finished":true' not in b"".join(chunk for _, chunk in stream.chunks[-5:]):
        raise RuntimeError(f"a turn of the bench failed: {stream.chunks[-1:]}")
    return stream


async def measure(
    name: str, installation: Installation, streams: int, *, seconds: int = ANSWER_SECONDS
) -> AsyncIterator[Figure]:
    """Let so many readers ask at once, and yield what they saw."""
    address, notes = address_of(installation.home), list[None]()
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=RUN_SECONDS)
    login = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        connected(address) as owner,
        aiohttp.ClientSession(connector=connector, timeout=timeout, headers=login) as session,
    ):
        # Everything is imported and planned, and each worker has had a turn.
        await asyncio.gather(*(read(session, installation.url, -n, f"{STAMPS} {mark(delay=100)}") for n in range(1, 9)))
        await run_as_owner(address, "UPDATE users SET token_budget_monthly = NULL")
        await owner.add_listener(TURNS, lambda *_: notes.append(None))
        commits, cpu, began = await owner.fetchval(COMMITS), installation.read_cpu(), time.monotonic()
        content = f"{STAMPS} {mark(delay=seconds * 1000)}"
        results = await asyncio.gather(*(read(session, installation.url, n, content) for n in range(streams)))
        took = time.monotonic() - began
        spent = [after - before for after, before in zip(installation.read_cpu(), cpu, strict=True)]
        await owner.fetchval("SELECT 1")
        commits = await count_commits(owner) - commits
    for figure in to_figures(results, seconds * STAMPS_A_SECOND, took, spent):
        yield Figure(f"{name}: {figure.name}", figure.value, figure.unit, at_most=figure.at_most)
    yield Figure(f"{name}: notes by NOTIFY", len(notes) / took, "/s")
    yield Figure(f"{name}: commits", commits / took, "/s")


async def measure_all(
    name: str, counts: Sequence[int], home: Path, *, base_url: str, more: Mapping[str, str]
) -> AsyncIterator[Figure]:
    """Start an installation with these settings, and measure it with so many readers, one after another."""
    async with running_installation(home, base_url, more) as installation:
        for count in counts:
            async for figure in measure(f"{count} streams, {name}", installation, count):
                yield figure


async def count_commits(owner: asyncpg.Connection) -> int:
    # What a session has counted is told within a second or so.
    await owner.execute("SELECT pg_stat_force_next_flush()")
    return int(await owner.fetchval(COMMITS))


def to_figures(streams: list[Stream], count: int, took: float, spent: list[float]) -> list[Figure]:
    """Return the figures of a run of `took` seconds, in which each stream had `count` pieces."""
    pairs = [stream.list_delays() for stream in streams]
    wrong = sum(numbers != list(range(count)) for numbers, _ in pairs)
    firsts = tuple(delays[0] for _, delays in pairs if delays)
    delays = tuple(delay for _, own in pairs for delay in own)
    times = [[came_at for came_at, _ in stream.list_deltas()] for stream in streams]
    deltas = sum(map(len, times))
    return [
        Figure("streams with lost or reordered pieces", wrong, at_most=0),
        Figure("at once, at the most", count_at_once([(own[0], own[-1]) for own in times if own])),
        Figure("first piece behind the model's, p50", percentile(firsts, 50), "ms"),
        Figure("first piece behind the model's, p95", percentile(firsts, 95), "ms"),
        Figure("any piece behind the model's, p50", percentile(delays, 50), "ms"),
        Figure("any piece behind the model's, p95", percentile(delays, 95), "ms"),
        Figure("deltas", deltas / took, "/s"),
        Figure("the model's pieces", len(delays) / took, "/s"),
        *(
            Figure(f"CPU for 1,000 deltas: {who}", seconds / deltas * 1000, "s")
            for who, seconds in zip(("door", "workers", "Postgres"), spent, strict=True)
        ),
    ]


def count_at_once(spans: list[tuple[float, float]]) -> int:
    """Return how many of these spans of time overlap at the most."""
    changes = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    return max(accumulate(change for _, change in changes), default=0)
