"""A worker in a separate process, which kills, freezes or holds itself at a chosen point of a turn.

Its composition root wraps the collaborators: each commit, model call, tool run and delivery has a point before and a
point after. The model is the scripted one, which does not import litellm, so that a process starts in milliseconds.
Effects, posts and model calls are counted in tables that no transaction of a turn touches.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import asyncpg
import uvloop
from msgspec.structs import replace
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.cli.compose import open_app
from adapters.cli.watchdog import watched
from adapters.cli.worker import build_worker
from agent import commands
from agent.app import App
from agent.llm.completions import CallObserver, Completion, ModelRequest
from agent.llm.router import Router
from agent.queue.job import GRACE_SECONDS
from agent.queue.outbox import Reply
from agent.tools.modules import ModuleTools
from agent.turn.running import RunningTurn
from shared.clock import Clock
from shared.db import driver
from shared.db.database import Address, Database
from shared.db.hosts import parse_url
from shared.log import configure_logging
from shared.messages import Permission, Place, Sender
from shared.settings import Settings
from shared.tools import Tool, ToolContext
from tests.standins.openai_api.script import last_user_text

# Tasks of the worker that are independent of turns: it itself, and its periodic ones.
PERIODIC_TASKS = {
    "worker",
    "sweeper",
    "lost jobs",
    "expired reservations",
    "outbox sweeper",
    "orphan sweeper",
    "maintenance",
    "vectors",
    "vector indexes",
    "turn memories",
    "failed modules",
    "summaries",
    "memory index",
    "scheduled jobs",
    "model prices",
    "budget notices",
    "checks of jobs",
    "facts",
    "MCP servers",
    "model events",
    "claim",
    "jobs",
    "look",
    "notes",
    "batch loader",
    "live message",
}

HAS_WRITTEN = text("SELECT pg_current_xact_id_if_assigned() IS NOT NULL")

Action = Literal["none", "kill", "freeze", "hold"]


@dataclass(frozen=True, slots=True)
class Orders:
    """A worker's orders: its database, its model's answers, and what it does to itself at which point.

    `deadly` is the first word of messages that kill the process, `blocking` of those that block its event loop
    until a watchdog with short times ends it. `last_tool` ("effect" or "read") returns only after the other tool's
    result is recorded. With a `command` it gives only that, reports the answer and ends.
    """

    url: str
    home: str
    name: str
    answers: str
    at: str = ""
    action: Action = "none"
    grace: float = GRACE_SECONDS
    last_tool: str = ""
    deadly: str = ""
    blocking: str = ""
    max_turns: int = 200
    command: str = ""


class Points:
    """Counts the points that are reached, reports them to the test, and executes the order at its point."""

    def __init__(self, orders: Orders) -> None:
        # A program that it starts has no part in it.
        self._orders, self._output = orders, os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._seen: Counter[str] = Counter()
        self._commits = asyncio.Condition()

    async def reach(self, name: str) -> None:
        """Reach a point: the n-th `name` in this process is called `name n`."""
        self._seen[name] += 1
        point = f"{name} {self._seen[name]}"
        is_here = point == self._orders.at
        self.report(point)
        if is_here and self._orders.action == "hold":
            await asyncio.Event().wait()
        if is_here and self._orders.action in {"kill", "freeze"}:
            os.kill(os.getpid(), signal.SIGKILL if self._orders.action == "kill" else signal.SIGSTOP)
        if name == "commit after":
            async with self._commits:
                self._commits.notify_all()

    def report(self, point: str) -> None:
        """Send the test the name of a point, if it still listens."""
        with contextlib.suppress(OSError):
            os.write(self._output, json.dumps(point).encode() + b"\n")

    async def next_commit(self) -> None:
        """Wait for the next commit of this process."""
        async with self._commits:
            await self._commits.wait()


class MarkedDatabase(Database):
    """Every transaction of a turn has a point just before and just after its commit.

    So has one that sends a scheduled job; there it is called `fire`.
    """

    def __init__(self, address: Address, points: Points) -> None:
        super().__init__(address, pool_size=4)
        self._points = points

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """Open a transaction; those of other periodic tasks have no points."""
        name = "commit" if is_of_turn() else ""
        async with super().transaction() as session:
            yield session
            if task_name() == "scheduled jobs" and await session.scalar(HAS_WRITTEN):
                name = "fire"
            if name:
                await self._points.reach(f"{name} before")
        if name:
            await self._points.reach(f"{name} after")

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[driver.Connection]:
        """Open a session for one statement; dying before it or in it has the same effect."""
        is_marked = is_of_turn()
        if is_marked:
            await self._points.reach("commit before")
        async with super().statement() as session:
            yield session
        if is_marked:
            await self._points.reach("commit after")


def is_of_turn() -> bool:
    """Return whether this is a turn's task and not a periodic task."""
    return task_name() not in PERIODIC_TASKS


def task_name() -> str:
    """Return the name of the running task; empty outside of one."""
    task = asyncio.current_task()
    return task.get_name() if task is not None else ""


class Counts:
    """Counters outside every transaction of a turn."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: list[asyncpg.Connection] = []
        # One after the other: each connection is a process of the server more.
        self._adding = asyncio.Lock()

    async def add(self, statement: str, *parameters: Any) -> None:
        """Run one statement on a connection that no turn uses."""
        async with self._adding, self.connected() as connection:
            await connection.execute(statement, *parameters)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[asyncpg.Connection]:
        """Borrow a connection of the program's role, and open one when none is idle."""
        connection = self._idle.pop() if self._idle else await self._address.connect(statement_seconds=0)
        try:
            yield connection
        finally:
            self._idle.append(connection)

    async def close(self) -> None:
        """Close the connections."""
        for connection in self._idle:
            await connection.close()


class MarkedRouter(Router):
    """Every model call has a point before and after, and is counted; concurrent calls in one place are recorded.

    A place's name is the first word of its messages.
    """

    def __init__(self, settings: Settings, clock: Clock, orders: Orders, points: Points, counts: Counts) -> None:
        super().__init__(settings, clock)
        self._orders, self._points, self._counts = orders, points, counts

    async def complete(
        self,
        request: ModelRequest,
        *,
        deadline: float,
        observer: CallObserver | None = None,
        is_background: bool = False,
    ) -> Completion:
        """Answer from the script while the place's advisory lock is held."""
        place = last_user_text({"messages": request.messages}).split()[0]
        await self._points.reach("model before")
        if place == self._orders.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        if place == self._orders.blocking:
            stand_still()
        async with self._counts.connected() as connection:
            is_alone = await connection.fetchval("SELECT pg_try_advisory_lock(hashtextextended($1, 1))", place)
            completion = await super().complete(
                request, deadline=deadline, observer=observer, is_background=is_background
            )
            await connection.execute(
                "INSERT INTO stage_model_calls VALUES ($1, $2, $3, $4, $5)",
                place,
                self._orders.name,
                find_reservation(observer),
                completion.usage.total,
                is_alone,
            )
            await connection.execute("SELECT pg_advisory_unlock_all()")
        await self._points.reach("model after")
        return completion


def find_reservation(observer: CallObserver | None) -> int | None:
    """Return the reservation of the call; its turn is an argument of the callback that pays for rejected answers."""
    assert observer is not None
    assert isinstance(observer.pay, partial)
    turn: RunningTurn = observer.pay.args[1]
    return turn.spend.admission.reservation_id


def stand_still() -> None:
    """Block the event loop without end; to compute meanwhile, as a test of the watchdog does, would cost seconds."""
    while True:
        time.sleep(60)


class TablePlatform:
    """A platform whose posts are rows; it accepts each nonce once, as Discord does."""

    def __init__(self, points: Points, counts: Counts) -> None:
        self._points, self._counts = points, counts

    def outage_scope(self, _place: Place) -> str:
        """Return nothing: it is away as a whole."""
        return ""

    async def send(self, reply: Reply) -> str | None:
        """Post the reply unless its nonce is known."""
        await self._points.reach("send before")
        await reply.check_claim()
        await self._counts.add("INSERT INTO stage_sends VALUES ($1)", reply.nonce)
        await self._counts.add(
            "INSERT INTO stage_posts VALUES ($1, $2) ON CONFLICT DO NOTHING", reply.nonce, reply.content
        )
        await self._points.reach("send after")
        return reply.nonce


def build_tools(points: Points, counts: Counts, last_tool: str) -> ModuleTools:
    """Return a read-only tool, one with an effect, and one whose effect needs a yes."""

    async def run(kind: str, context: ToolContext) -> str:
        await points.reach(f"{kind} before")
        if kind == last_tool:
            await points.next_commit()
        await counts.add(f"INSERT INTO stage_{kind}s VALUES ($1)", context.call_id)  # noqa: S608  # our own two names
        await points.reach(f"{kind} after")
        return f"{kind} done"

    async def read(context: ToolContext) -> str:
        """Look something up."""
        return await run("read", context)

    async def effect(context: ToolContext) -> str:
        """Change something outside."""
        return await run("effect", context)

    async def careful(context: ToolContext, what: str = "it") -> str:
        """Change something outside after the person's yes."""
        await context.confirm("Shall I?" if what == "it" else f"Shall I do {what}?")
        return await run("effect", context)

    tools = [
        Tool(read, Permission.GUEST, read_only=True, module="stage"),
        Tool(effect, Permission.GUEST, module="stage"),
        Tool(careful, Permission.GUEST, module="stage"),
    ]
    return ModuleTools(tools)


@asynccontextmanager
async def open_marked_app(orders: Orders, points: Points) -> AsyncIterator[App]:
    """Assemble the app with wrapped collaborators; memory and listener keep the plain database."""
    settings = Settings(
        parley_home=Path(orders.home),
        debug_mock_responses=orders.answers,
        default_guest_modules=("stage",),
        default_guest_token_budget=1_000_000,
        max_turns=orders.max_turns,
    )
    address = Address(parse_url(orders.url), is_embedded=True)
    counts = Counts(address)
    async with open_app(settings, address, {"fake": TablePlatform(points, counts)}) as app:
        database = MarkedDatabase(address, points)
        try:
            yield replace(
                app,
                database=database,
                models=replace(app.models, router=MarkedRouter(settings, app.clock, orders, points, counts)),
                tools=replace(app.tools, modules=build_tools(points, counts, orders.last_tool)),
            )
        finally:
            await counts.close()
            await database.close()


async def work(orders: Orders) -> None:
    """Work until SIGTERM."""
    points = Points(orders)
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(open_marked_app(orders, points))
        if orders.blocking:
            stack.enter_context(watched(log_after=0.5, end_after=2))
        if orders.command:
            points.report("ready")
            place = Place("fake", None, "dm-ann", is_direct=True)
            reply = await commands.answer(app, Sender("fake", "ann", "Ann"), place, orders.command)
            points.report(f"answer: {reply and reply.text}")
            return
        working = asyncio.create_task(build_worker(app, grace=orders.grace).run(), name="worker")
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
        points.report("ready")
        (error,) = await asyncio.gather(working, return_exceptions=True)
        if isinstance(error, Exception):
            # No worker ends by itself.
            raise error


def main() -> None:
    """Carry out the orders that the argument has as JSON; points go to standard output."""
    orders = Orders(**json.loads(sys.argv[1]))
    configure_logging("INFO", "console")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work(orders))
