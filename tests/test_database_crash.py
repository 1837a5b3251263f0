"""Postgres is killed while turns begin: no id of a turn is given out twice, and nobody gets another person's answer."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.tables import update_tables
from agent.queue.job import Limits
from agent.queue.worker import Worker
from shared.clock import SystemClock
from shared.db.database import Address
from shared.db.embedded.server import start_postgres
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body, last_user_text
from tests.support.connections import connected, run_as_owner
from tests.support.folders import temporary_folder
from tests.support.held_turns import HeldTurns, working
from tests.support.parley import message, open_parley
from tests.support.recovery import answer_of, control, kill_postgres

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
    async with open_parley(settings, address, model, works=False) as parley, asyncio.timeout(60):
        worker = Worker(parley.app.database, SystemClock(), turns.run, limits=Limits(grace_seconds=0))
        parley.app.events.notifier.add_worker(worker.jobs)
        async with working(worker):
            while not worker.jobs.is_near:  # noqa: ASYNC110  # it tells nobody that it has begun
                await asyncio.sleep(0.02)
            for number in range(MESSAGES):
                accepted = await parley.accept("hello", user=f"new-{number}")
                assert (await turns.taken.get()).inbox_id == accepted.inbox_id
            await kill_postgres(crashing_home)
    async with connected(address) as owner:
        assert await owner.fetchval("SELECT count(*) FROM inbox WHERE content = 'hello'") == MESSAGES
