"""Postgres is killed while turns begin and end: what was acknowledged is answered once, and to nobody else.

No id of a turn is given out twice.
"""

import asyncio
import math
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from adapters.tables import update_tables
from agent.people.participants import resolve_user
from agent.queue.job import Job, Limits
from agent.queue.worker import Worker
from agent.turn.run import run_turn
from agent.turn.running import Cancellations
from shared.clock import SystemClock
from shared.db.database import Address, DatabaseLost, retry_on_lost_db
from shared.db.embedded.server import start_postgres
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body, last_user_text
from tests.support.connections import connected, run_as_owner
from tests.support.folders import temporary_folder
from tests.support.held_turns import HeldTurns, working
from tests.support.parley import Parley, message, open_parley
from tests.support.processes import kill_server
from tests.support.recovery import accept_patiently, answer_of, control, kill_postgres

CALLERS = 12
# So few that a worker takes those of its own process.
MESSAGES = 3


@pytest.fixture(scope="module")
def crashing_home() -> Iterator[Path]:
    """The folder of a Postgres that only these tests use; what is not flushed by a commit stays in its memory."""
    with temporary_folder("crash") as home:
        asyncio.run(keep_unflushed(Address(start_postgres(home), is_embedded=True)))
        yield home
        asyncio.run(control(home, "stop", "immediate"))


async def keep_unflushed(address: Address) -> None:
    """Let the server write asynchronous commits as late as it can, so that a crash loses them for certain."""
    settings = ("wal_writer_delay = '10s'", "wal_writer_flush_after = '100MB'", "autovacuum = off")
    await run_as_owner(address, *(f"ALTER SYSTEM SET {setting}" for setting in settings), "SELECT pg_reload_conf()")
    await update_tables(address)


@asynccontextmanager
async def working_near(parley: Parley, run: Callable[[Job], Awaitable[bool | None]]) -> AsyncIterator[None]:
    """Let a worker run for the block that takes what its own process accepts."""
    worker = Worker(parley.app.database, SystemClock(), run, limits=Limits(grace_seconds=0))
    parley.app.events.notifier.add_worker(worker.jobs)
    async with working(worker):
        while not worker.jobs.is_near:  # noqa: ASYNC110  # it tells nobody that it has begun
            await asyncio.sleep(0.02)
        yield


async def until_posted(parley: Parley, count: int) -> list[str]:
    """Return the replies to those whose messages were kept, as soon as there are so many; others are of before."""
    most = count
    while True:
        await parley.platform.wait_for(most)
        posts = [post.content for post in parley.platform.posts if post.place.channel.startswith("dm-kept")]
        if len(posts) >= count:
            return posts
        most += count - len(posts)


async def until_none(address: Address, query: str) -> None:
    """Wait until a query counts nothing."""
    async with connected(address) as owner:
        while await owner.fetchval(query):  # noqa: ASYNC110  # the database tells nobody
            await asyncio.sleep(0.02)


async def list_turns(address: Address) -> set[int]:
    """Return the ids of all turns, over a connection of its own."""
    async with connected(address) as owner:
        return {row["id"] for row in await owner.fetch("SELECT id FROM turns")}


async def test_no_caller_gets_the_answer_to_another_persons_message_after_postgres_was_killed(
    crashing_home: Path, settings: Settings, model: OpenAIStub
) -> None:
    is_back = asyncio.Event()

    async def answer(body: Body, _number: int) -> Answer:
        question = last_user_text(body).partition("\n")[0]
        if question.startswith("before"):
            await is_back.wait()
        return Answer(f"re: {question}")

    model.play(answer)
    address = Address(start_postgres(crashing_home), is_embedded=True)
    async with open_parley(settings, address, model) as parley:

        async def asks(kind: str, number: int) -> tuple[str, str]:
            _, reply = await answer_of(parley, message(f"{kind} {number}", user=f"{kind}-{number}"))
            return f"re: {kind} {number}", reply

        # The first turn of a process loads the model library; meanwhile other commits would flush those of the turns.
        await asks("warm", 0)
        early = [asyncio.create_task(asks("before", number)) for number in range(CALLERS)]
        await model.until(1 + CALLERS)
        turns = await list_turns(address)
        await kill_postgres(crashing_home)
        assert turns <= await list_turns(address)
        late = [asyncio.create_task(asks("after", number)) for number in range(CALLERS)]
        await model.until(1 + 2 * CALLERS)
        is_back.set()

        for expectation, reply in await asyncio.gather(*early, *late):
            assert reply == expectation
        assert len(await list_turns(address)) == 1 + 2 * CALLERS


async def test_a_message_that_was_accepted_with_its_job_is_there_after_postgres_was_killed(
    crashing_home: Path, settings: Settings, model: OpenAIStub
) -> None:
    # What a turn writes would flush the message, too.
    turns = HeldTurns()
    address = Address(start_postgres(crashing_home), is_embedded=True)
    async with (
        open_parley(settings, address, model, works=False) as parley,
        asyncio.timeout(60),
        working_near(parley, turns.run),
    ):
        async with parley.app.database.transaction() as session:
            # The last one is known: what the turn begins with is read at once, and the message flushed with the begin.
            await resolve_user(session, message("", user=f"new-{MESSAGES - 1}").sender)
        for number in range(MESSAGES):
            accepted = await parley.accept("hello", user=f"new-{number}")
            assert (await turns.taken.get()).inbox_id == accepted.inbox_id
        await kill_postgres(crashing_home)
    async with connected(address) as owner:
        assert await owner.fetchval("SELECT count(*) FROM inbox WHERE content = 'hello'") == MESSAGES


async def change_nothing(_parley: Parley, _job: Job) -> None:
    """Do what happens where only Postgres crashes."""


@asynccontextmanager
async def crash_before_begin(
    home: Path,
    settings: Settings,
    model: OpenAIStub,
    user: str,
    meanwhile: Callable[[Parley, Job], Awaitable[None]] = change_nothing,
) -> AsyncIterator[Parley]:
    """Let Postgres crash once: after a message is stored with what its turn begins with, and before that turn begins.

    That is the next message of a person, who is new and whose first one is answered before the block; `meanwhile` comes
    after the crash.
    """
    model.play(lambda body, _number: Answer(f"re: {last_user_text(body).partition(chr(10))[0]}"))
    address = Address(start_postgres(home), is_embedded=True)
    async with open_parley(settings, address, model, works=False) as parley, asyncio.timeout(60):
        crashes: list[Job] = []

        async def run(job: Job) -> bool:
            if job.prefetch is not None and not crashes:
                crashes.append(job)
                # Whoever waits for the begin of the turn gets no time to store the message otherwise.
                kill_server(home / "postgres")
                await control(home, "restart", "immediate")
                await meanwhile(parley, job)
            return await run_turn(parley.app.turns, job, Cancellations())

        async with working_near(parley, run):
            await parley.accept("first", user=user, adapter="fake")
            await parley.platform.wait_for(1)
            # What the end of a turn commits would flush the message, too.
            await until_none(address, "SELECT count(*) FROM jobs")
            async with connected(address) as owner:
                writer = await owner.fetchval("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")
            # It would flush what is committed from here on when its ten seconds are over, and that may be at once.
            os.kill(writer, signal.SIGSTOP)
            yield parley


async def test_what_is_lost_before_its_turn_begins_was_acknowledged_to_nobody(
    crashing_home: Path, settings: Settings, model: OpenAIStub
) -> None:
    async with crash_before_begin(crashing_home, settings, model, "lost") as parley:
        # In another place: that the first reply was delivered may be lost, too, and the next one waits behind it.
        event = message("second", user="lost", adapter="fake", channel="another")

        with pytest.raises(DatabaseLost):
            await parley.app.inbox.accept(event)

        # As an adapter does, and as the platform may on top.
        accepted = [await retry_on_lost_db(lambda: parley.app.inbox.accept(event), 60) for _ in range(2)]
        assert [each.is_new for each in accepted] == [True, False]
        assert await parley.platform.wait_for(2) == ["re: first", "re: second"]
        await parley.accept("third", user="lost", adapter="fake", channel="a third")
        assert (await parley.platform.wait_for(3))[2:] == ["re: third"]


async def store_for_bob(parley: Parley, job: Job) -> None:
    """Give the ids of the lost message to one of Bob's, for whose turn another process has begun to read."""
    # As if the server had been back within the time for which what was read ahead counts.
    assert job.prefetch is not None
    job.prefetch.until = math.inf
    event = message("of bob", user="bob", adapter="fake")
    assert await accept_patiently(parley.app.database, event) == job.inbox_id
    await parley.sql("SELECT nextval('turns_id_seq')")


async def test_a_turn_that_was_read_ahead_begins_for_no_other_message_with_the_id_of_a_lost_one(
    crashing_home: Path, settings: Settings, model: OpenAIStub
) -> None:
    async with crash_before_begin(crashing_home, settings, model, "cut off", store_for_bob) as parley:
        address = parley.app.database.address
        # The ids that are drawn from here on are drawn again after a crash.
        await run_as_owner(address, "CHECKPOINT")

        with pytest.raises(DatabaseLost):
            await parley.accept("second", user="cut off", adapter="fake")

        assert (await parley.platform.wait_for(2))[1:] == ["re: of bob"]
        assert parley.platform.posts[1].place.channel == "dm-bob"
        await until_none(address, "SELECT count(*) FROM jobs")
        assert await parley.value("SELECT count(*) FROM inbox WHERE status <> 'answered'") == 0


async def test_what_was_acknowledged_while_its_turn_began_is_answered_once_after_postgres_was_killed(
    crashing_home: Path, settings: Settings, model: OpenAIStub
) -> None:
    is_back = asyncio.Event()

    async def answer(body: Body, _number: int) -> Answer:
        question = last_user_text(body).partition("\n")[0]
        if question != "known":
            await is_back.wait()
        return Answer(f"re: {question}")

    model.play(answer)
    address = Address(start_postgres(crashing_home), is_embedded=True)
    async with open_parley(settings, address, model) as parley, asyncio.timeout(60):
        for number in range(MESSAGES):
            await parley.accept("known", user=f"kept-{number}", adapter="fake")
        await until_posted(parley, MESSAGES)
        asked = [f"kept {number}" for number in range(MESSAGES)]
        for number, content in enumerate(asked):
            await parley.accept(content, user=f"kept-{number}", adapter="fake")
        # No more was awaited than that: the turns run.
        await kill_postgres(crashing_home)
        is_back.set()

        await until_posted(parley, 2 * MESSAGES)

        async with connected(address) as owner:
            stored = await owner.fetchval("SELECT count(*) FROM inbox WHERE content LIKE 'kept %'")
        assert stored == MESSAGES

        # That they have been delivered is not flushed: whoever sends them again asks the platform.
        await kill_postgres(crashing_home)

        await run_as_owner(address, "UPDATE outbox SET claimed_until = now() WHERE status = 'claimed'")
        await until_none(address, "SELECT count(*) FROM outbox WHERE status <> 'delivered'")
        posts = await until_posted(parley, 2 * MESSAGES)
        assert sorted(posts) == sorted(["re: known"] * MESSAGES + [f"re: {content}" for content in asked])
