"""Recovery from database restarts, lost notifications and messages that break a turn."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from adapters.cli.worker import build_worker
from adapters.tables import update_tables
from agent.llm.completions import CallObserver, Completion, ModelRequest
from agent.llm.router import Router
from agent.queue import inbox
from agent.queue.outbox import Reply
from agent.tools.modules import ModuleTools
from agent.tools.offer import Scope
from shared.clock import SystemClock
from shared.db.database import Address, Database
from shared.db.embedded.server import start_postgres
from shared.db.hosts import URL
from shared.messages import Place
from shared.settings import Settings
from shared.tools import Tool
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body, last_user_text, results_so_far
from tests.support.connections import run_as_owner
from tests.support.parley import Parley, message, open_parley
from tests.support.recovery import (
    answer_of,
    control,
    cut_connections,
    losing_acknowledgements,
    open_parley_with,
    repeated_effects,
)

ROOM = 100_000_000

pytestmark = pytest.mark.settings(default_guest_token_budget=ROOM)


@pytest.fixture(scope="module")
def own_home() -> Iterator[Path]:
    """The folder of a Postgres that only these tests use, durable as in production, to restart and crash."""
    with tempfile.TemporaryDirectory(prefix="parley-restart-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        start_postgres(home)
        yield home
        asyncio.run(control(home, "stop", "immediate"))


@pytest.fixture
async def own_address(own_home: Path) -> Address:
    """A database with all tables on the server to restart."""
    server = Address(start_postgres(own_home), is_embedded=True)
    name = f"test_{uuid4().hex}"
    await run_as_owner(server, f"CREATE DATABASE {name}")
    address = Address(server.url.set(database=name), is_embedded=True)
    await update_tables(address)
    return address


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_of_postgres_during_turns_loses_nothing(
    own_home: Path, own_address: Address, settings: Settings, model: OpenAIStub, mode: str
) -> None:
    go = asyncio.Event()

    async def answer(body: Body, _number: int) -> Answer:
        question = last_user_text(body).partition("\n")[0]
        if "held" in question:
            await go.wait()
        if not results_so_far(body):
            return Answer(tool_calls=[("knowledge__remember", {"content": question}), ("knowledge__list_memories", {})])
        return Answer(f"re: {question}")

    model.play(answer)
    async with open_parley(settings, own_address, model) as parley:
        events = [
            message(f"{kind} {number}", channel=f"{kind}-{number}", adapter="fake")
            for number in range(10)
            for kind in ("held", "free")
        ]
        tasks = [asyncio.create_task(answer_of(parley, event)) for event in events]
        await model.until(15)
        restarting = asyncio.create_task(control(own_home, "restart", mode))
        more = [message(f"late {number}", channel=f"late-{number}", adapter="fake") for number in range(5)]
        tasks += [asyncio.create_task(answer_of(parley, event)) for event in more]
        await restarting
        go.set()
        results = await asyncio.gather(*tasks)

        assert results == [(None, f"re: {event.content}") for event in (*events, *more)]
        posts = await parley.platform.wait_for(25)
        assert Counter(posts) == Counter(content for _, content in results)
        assert await parley.value("SELECT count(*) FROM outbox") == 25
        assert await parley.value("SELECT count(*) FROM budget_reservations") == 0
        assert await parley.value("SELECT sum(tokens_reserved) FROM users") == 0
        assert await repeated_effects(parley) == []


async def test_a_turn_that_loses_all_connections_again_and_again_is_answered_all_the_same(
    parley: Parley, postgres: URL, address: Address
) -> None:
    async def answer(_body: Body, number: int) -> Answer:
        if number > 5:
            return Answer(f"answer {number}")
        assert await cut_connections(postgres, address) > 0
        return Answer(tool_calls=[("file_manager__list_files", {})])

    parley.model.play(answer)
    reply = await parley.ask("hello", adapter="fake")

    # Each answer is requested and charged once, and a lost connection does not count as a failure of the message.
    assert (reply.content, reply.error, reply.iterations) == ("answer 6", None, 6)
    assert await parley.value("SELECT count(*) FROM token_logs") == 6
    assert await parley.value("SELECT attempt - handovers FROM turns") == 1
    assert await parley.platform.wait_for(1) == ["answer 6"]
    assert (await parley.ask("again")).content == "answer 7"


async def test_the_acknowledgement_of_any_commit_may_be_lost(
    settings: Settings, address: Address, model: OpenAIStub, database: Database
) -> None:
    def answer(body: Body, _number: int) -> Answer:
        question = last_user_text(body).partition("\n")[0]
        if results_so_far(body):
            return Answer(f"re: {question}")
        return Answer(tool_calls=[("knowledge__remember", {"content": question}), ("file_manager__list_files", {})])

    model.play(answer)
    async with losing_acknowledgements(settings, address, model, database) as losing:
        async for question in losing.messages():
            reply = await losing.parley.ask(question, channel=question, adapter="fake")
            assert (reply.error, reply.content) == (None, f"re: {question}")
            # When the acknowledgement of closing is lost, the claim on the reply must expire.
            await losing.parley.sql("UPDATE outbox SET claimed_until = now() WHERE status = 'claimed'")
            assert Counter(await losing.parley.platform.wait_for(losing.lost))[reply.content] == 1


async def test_a_job_without_a_notification_is_taken_at_once(parley: Parley) -> None:
    await parley.ask("hello")
    for number in range(5):
        # As by a process that dies before it tells a worker.
        async with parley.app.database.statement() as session:
            event = inbox.to_event(message(f"unheard {number}"))
            (row,) = await inbox.accept_all(session, [event], is_announced=True)
        async with asyncio.timeout(4.5):
            await parley.model.until(number + 2)
        assert (await parley.app.events.response(row.inbox_id)).error is None


async def test_a_place_whose_job_was_lost_gets_a_new_one(parley: Parley) -> None:
    await parley.ask("hello")

    # As after a crash between the end of the job and the end of the turn.
    await parley.sql("UPDATE inbox SET status = 'waiting', turn_id = NULL, created_at = now() - interval '1 minute'")

    await parley.model.until(2)


class FaultyRouter(Router):
    """A router with a bug that one word triggers."""

    async def complete(
        self,
        request: ModelRequest,
        *,
        deadline: float,
        observer: CallObserver | None = None,
        is_background: bool = False,
    ) -> Completion:
        if "poison" in last_user_text({"messages": request.messages}):
            raise RuntimeError("a bug in the router")
        return await super().complete(request, deadline=deadline, observer=observer, is_background=is_background)


async def test_a_message_that_breaks_its_turn_is_parked_and_the_next_is_served(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    router = FaultyRouter(settings, SystemClock())
    with capture_logs() as logs:
        async with open_parley_with(settings, address, model, router=router) as parley:
            parked = await parley.ask("poison", adapter="fake")
            served = await parley.ask("hello", adapter="fake")
            posts = await parley.platform.wait_for(2)
            turns = await parley.sql("SELECT status, attempt, error, cause FROM turns ORDER BY id")
    await router.aclose()

    assert (parked.error, parked.finished) == ("parked", False)
    assert served.error is None
    assert posts == [parked.content, served.content]
    assert "RuntimeError" not in parked.content
    assert [tuple(row) for row in turns] == [
        ("failed", 4, "parked", "failed 3 times; last: RuntimeError: a bug in the router"),
        ("answered", 1, None, None),
    ]
    assert [line["event"] for line in logs].count("turn_failed") == 3


class FaultyModules(ModuleTools):
    """Modules with a bug that one person triggers before their turn has begun."""

    def list(self, scope: Scope) -> Sequence[Tool]:
        if scope.user.name == "Mallory":
            raise RuntimeError("a bug in a provider")
        return super().list(scope)


async def test_a_message_for_which_no_turn_can_begin_is_set_aside_alone(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    modules = FaultyModules(())
    with capture_logs():
        async with open_parley_with(settings, address, model, modules=modules) as parley:
            # With another permission than Ann, so that nobody's offer is kept for Mallory yet.
            await parley.sql("""
                WITH made AS (INSERT INTO users (permission_level) VALUES ('user') RETURNING id)
                INSERT INTO user_platform_links (user_id, platform, platform_user_id)
                SELECT id, 'test', 'mallory' FROM made
            """)
            event = asyncio.Event()
            model.play(lambda _body, number: _after(event, Answer(f"answer {number}")))
            place = {"server": "s", "channel": "general"}
            first = await parley.accept("hello", user="ann", **place)
            await model.until(1)
            # Ann's message was stored first and sent last, so her job finds the other person's message.
            last = await parley.accept("and now?", user="ann", **place)
            early = datetime(2020, 1, 1, tzinfo=UTC)
            broken = await parley.accept("hello", user="mallory", sent_at=early, adapter="fake", **place)
            event.set()
            responses = [await parley.app.events.response(acceptance.inbox_id) for acceptance in (first, broken, last)]
            stories = await parley.sql("SELECT status FROM inbox ORDER BY id")
            posts = await parley.platform.wait_for(1)

    assert [response.error for response in responses] == [None, "parked", None]
    assert posts == [responses[1].content]
    assert [row[0] for row in stories] == ["answered", "answered", "failed"]


async def _after(event: asyncio.Event, answer: Answer) -> Answer:
    await event.wait()
    return answer


class FaultyPlatform:
    """A sender with a bug that one reply triggers."""

    def __init__(self) -> None:
        self.tries: Counter[str] = Counter()
        self.posted = asyncio.Event()

    def outage_scope(self, _place: Place) -> str:
        """Return nothing: it is away as a whole."""
        return ""

    async def send(self, reply: Reply) -> str | None:
        self.tries[reply.content] += 1
        if "poison" in reply.content:
            raise RuntimeError("a bug in the adapter")
        self.posted.set()
        return "posted"


async def sweep_past_bugs(parley: Parley) -> None:
    """Deliver left-over replies as the worker does: log a bug and go on."""
    with suppress(RuntimeError):
        await parley.app.outbox.sweep()


async def test_a_reply_that_breaks_its_sender_is_set_aside_and_holds_up_no_other(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    platform = FaultyPlatform()
    model.play([Answer("poison"), Answer("good")])
    with capture_logs():
        async with open_parley_with(settings, address, model, senders={"fake": platform}) as parley:
            await parley.ask("first", adapter="fake")
            await parley.ask("second", adapter="fake", user="bob")
            await asyncio.wait_for(platform.posted.wait(), 30)
            # Skip the delay between attempts.
            pass_minutes = (
                "UPDATE outbox SET claimed_until = now() - interval '1 minute', tried_at = now() - :minutes * interval"
                " '1 minute' WHERE content = 'poison' AND status = 'claimed'"
            )
            # Nothing runs for two days; then it is tried for half an hour.
            for minutes in (2 * 24 * 60, *[1] * 30):
                await parley.sql(pass_minutes, minutes=minutes)
                await sweep_past_bugs(parley)
            assert await parley.value("SELECT status FROM outbox WHERE content = 'poison'") == "claimed"
            for _ in range(31):
                await parley.sql(pass_minutes, minutes=1)
                await sweep_past_bugs(parley)
            rows = await parley.sql("SELECT content, status, error FROM outbox ORDER BY id")

    assert [tuple(row) for row in rows] == [
        ("poison", "failed", "no delivery of it came to an end"),
        ("good", "delivered", None),
    ]
    assert platform.tries["good"] == 1


async def test_a_worker_that_is_stopped_while_it_starts_leaves_nothing_behind(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        for turns_of_the_loop in (0, 1, 2, 3, 5, 8, 13, 21):
            working = asyncio.create_task(build_worker(parley.app).run())
            for _ in range(turns_of_the_loop):
                await asyncio.sleep(0)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

            assert [task for task in asyncio.all_tasks() if task.get_name().startswith("queue-")] == []
