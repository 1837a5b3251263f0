"""The test's side: a fresh database, the worker processes on it, and queries for the outcome."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg

from agent.journal.responses import find_response
from agent.live.notifier import Notifier
from agent.queue.inbox import Inbox
from shared.clock import SystemClock
from shared.db.database import Address, Database
from shared.db.hosts import URL
from shared.files.storage import open_storage
from shared.messages import AgentResponse, Attachment
from shared.settings import Settings, load_secrets
from tests.conftest import new_database
from tests.crash.tables import TABLES
from tests.crash.worker import Orders
from tests.support.connections import connected
from tests.support.databases import Databases
from tests.support.forks import ROOT, Request, get_forks
from tests.support.parley import message

WAVE: list[Any] = [
    {"tool_calls": [{"name": "stage__read"}, {"name": "stage__effect"}]},
    "It is done.",
]
TIMEOUT = 100
# These tables contain a turn's outcome, which a worker that wakes up late must not change.
DECIDED = ("turns", "messages", "turn_events", "token_logs", "inbox", "outbox", "file_records", "users", "stage_posts")


@dataclass
class WorkerAtWork:
    """A worker in a separate process; `points` are those that it has reached, in order."""

    orders: Orders
    # A handle, which can be read when it has ended.
    process: int
    output: int
    points: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    is_gone: bool = False
    # The beginning of a line.
    text: bytes = b""

    def listen(self) -> None:
        """Start receiving its messages."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.output, self._read)
        loop.add_reader(self.process, self._end)

    def _read(self) -> bool:
        output = os.read(self.output, 2**16)
        *lines, self.text = (self.text + output).split(b"\n")
        self.points += map(json.loads, lines)
        self.changed.set()
        if not output:
            asyncio.get_running_loop().remove_reader(self.output)
        return bool(output)

    def _end(self) -> None:
        while self._read():
            pass
        asyncio.get_running_loop().remove_reader(self.process)
        os.close(self.output)
        os.close(self.process)
        self.is_gone = True

    async def until(self, point: str) -> None:
        """Wait until it has reached this point."""
        async with asyncio.timeout(TIMEOUT):
            while point not in self.points:
                assert not self.is_gone, f"{self.orders.name} ended before {point!r}: {self.points}"
                self.changed.clear()
                await self.changed.wait()

    async def until_points(self, count: int, seconds: float) -> None:
        """Wait until it has reached this many points, at most for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(self.points) < count and not self.is_gone:
                    self.changed.clear()
                    await self.changed.wait()

    async def until_gone(self) -> None:
        """Wait until it has ended."""
        async with asyncio.timeout(TIMEOUT):
            while not self.is_gone:
                self.changed.clear()
                await self.changed.wait()

    def signal(self, number: int) -> None:
        signal.pidfd_send_signal(self.process, number)

    async def stop(self) -> None:
        """Terminate it and wait for its end."""
        self.signal(signal.SIGTERM)
        await self.until_gone()

    async def end(self) -> None:
        """Kill it, whatever its state."""
        if not self.is_gone:
            self.signal(signal.SIGKILL)
            await self.until_gone()


@dataclass
class Stage:
    """A separate database; messages go into the inbox, workers are started on it."""

    url: URL
    home: Path
    database: Database
    owner: asyncpg.Connection
    leaving: AsyncExitStack
    delivered: asyncio.Event = field(default_factory=asyncio.Event)

    async def worker(self, name: str, answers: Sequence[Any] = WAVE, **orders: Any) -> WorkerAtWork:
        """Start a worker and wait until it takes jobs."""
        order = Orders(self.url.to_text(hide_password=False), str(self.home), name, json.dumps(answers), **orders)
        request = Request("tests.crash.worker", [json.dumps(asdict(order))], dict(os.environ), str(ROOT))
        here, there = os.pipe()
        log = os.open(self.home / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        # The first one waits until the program is imported.
        program = get_forks().start(request, [log, there, log])
        pid, _ = await asyncio.to_thread(self.leaving.enter_context, program)
        os.close(log)
        os.close(there)
        worker = WorkerAtWork(order, os.pidfd_open(pid), here)
        worker.listen()
        self.leaving.push_async_callback(worker.end)
        await worker.until("ready")
        return worker

    async def accepts(self, content: str, **fields: Any) -> int:
        """Store a message from the fake platform; return its inbox id."""
        inbox = Inbox(self.database, Notifier(self.database))
        return (await inbox.accept(message(content, adapter="fake", **fields))).inbox_id

    async def response(self, inbox_id: int) -> AgentResponse:
        """Wait for the answer to a message, at most for a minute."""
        async with asyncio.timeout(TIMEOUT):
            return await self.answer(inbox_id)

    async def answer(self, inbox_id: int) -> AgentResponse:
        """Wait for the answer to a message, as long as it takes; nobody is told of the end of a platform's turn."""
        while True:
            async with self.database.statement() as session:
                if (response := await find_response(session, inbox_id)) is not None:
                    return response
            await asyncio.sleep(0.05)

    async def attachment(self) -> Attachment:
        """Put a file into the storage that all workers share."""
        settings = Settings(parley_home=self.home)
        storage = open_storage(settings, load_secrets(settings), SystemClock())
        await storage.put("stage/notes.txt", b"a note", "text/plain")
        await storage.aclose()
        return Attachment("notes.txt", "text/plain", 6, storage_key="stage/notes.txt")

    async def fail_over(self) -> None:
        """Let the database be in a new history for who connects next, and end the connections of all others."""
        await self.owner.execute("UPDATE database_histories SET timeline = timeline - 1")
        await self.owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )

    async def age_the_dead(self) -> None:
        """Let the other workers count as dead: their rows, leases and open transactions end."""
        await self.owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND (state = 'idle in transaction'"
            # Who is frozen within a statement has sent it in part.
            " OR state = 'active' AND wait_event = 'ClientRead')"
        )
        await self.owner.execute("DELETE FROM workers")
        await self.owner.execute("UPDATE outbox SET claimed_until = now() WHERE claimed_until > now()")

    async def until_delivered(self, count: int) -> None:
        """Wait until this many replies are marked as delivered."""
        async with asyncio.timeout(TIMEOUT):
            while await self.value("SELECT count(*) FROM outbox WHERE status = 'delivered'") < count:
                self.delivered.clear()
                if await self.value("SELECT count(*) FROM outbox WHERE status = 'delivered'") < count:
                    await self.delivered.wait()

    async def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.owner.fetch(query, *parameters)]

    async def value(self, query: str, *parameters: Any) -> Any:
        """Return the first value of a query."""
        return await self.owner.fetchval(query, *parameters)


async def run_with_fault(
    stage: Stage, first: WorkerAtWork, second: Sequence[Any], inbox_id: int, *, is_failed_over: bool = False
) -> list[str]:
    """Let a worker die or freeze at its point, and a second one answer this message and another in the same place.

    With `is_failed_over` the database begins a new history at that point, and all connections are lost.
    Returns what is wrong when a frozen worker wakes up then: it must not change what is decided.
    """
    is_frozen = first.orders.action == "freeze"
    await (first.until(first.orders.at) if is_frozen else first.until_gone())
    await (stage.fail_over() if is_failed_over else stage.age_the_dead())
    successor = await stage.worker("second", second)
    await stage.response(inbox_id)
    # The place's lock is free again, because everything that the first worker held has expired.
    await stage.response(await stage.accepts("room: and now?"))
    await stage.until_delivered(2)
    if not is_frozen:
        await successor.stop()
        return []
    before = await decided(stage)
    first.signal(signal.SIGCONT)
    await first.stop()
    await successor.stop()
    after = await decided(stage)
    return [
        f"the worker that woke up late changed {was} to {now}"
        for was, now in zip(before, after, strict=True)
        if was != now
    ]


async def decided(stage: Stage) -> list[Any]:
    """Return the outcome of all turns; memories of them are written later, in the background."""
    query = "SELECT to_jsonb(t) - 'has_memories' FROM {table} AS t ORDER BY 1"
    return [await stage.rows(query.format(table=table)) for table in DECIDED]


@asynccontextmanager
async def open_stage(stages: Databases, home: Path) -> AsyncIterator[Stage]:
    """Open a stage with a database and a home of its own."""
    async with stages.one() as address, open_stage_on(address, home / uuid4().hex) as stage:
        yield stage


@asynccontextmanager
async def open_copy(server: URL, home: Path, original: Address) -> AsyncIterator[Stage]:
    """Open a stage with a copy of a stage's database, in whose home it is."""
    async with (
        new_database(server, template=original.url.database) as address,
        open_stage_on(address, home / str(original.url.database)) as stage,
    ):
        yield stage


@asynccontextmanager
async def open_stage_on(address: Address, folder: Path) -> AsyncIterator[Stage]:
    """Open a stage on a database; workers on it end with it, and nobody stays connected."""
    async with AsyncExitStack() as leaving:
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        owner = await leaving.enter_async_context(connected(address))
        if not await owner.fetchval("SELECT to_regclass('stage_effects')"):
            await owner.execute(TABLES)
        database = Database(address, pool_size=2)
        leaving.push_async_callback(database.close)
        stage = Stage(address.url, folder, database, owner, leaving)
        await owner.add_listener("stage", lambda *_: stage.delivered.set())
        yield stage
