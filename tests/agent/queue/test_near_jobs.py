"""What a process accepts while its own worker takes jobs: neither waits for the other, and what stops takes none."""

import asyncio
from contextlib import AsyncExitStack

from sqlalchemy import text

from agent.live.notifier import Notifier
from agent.queue.edits import change_message
from agent.queue.inbox import Inbox
from agent.queue.job import Job, Limits
from agent.queue.worker import Worker
from shared.clock import SystemClock
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import last_user_text
from tests.support.held_turns import HeldTurns, working
from tests.support.parley import Parley, message, open_parley

LOCKED_PLACE = "SELECT pg_advisory_xact_lock(hashtextextended('inbox ' || :place, 0))"
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
# The statement that stores a message and reads for its turn has given up waiting, and another one reads.
STORED = "SELECT count(*) FROM inbox, pg_locks WHERE status = 'waiting' AND NOT granted"
HAVE_MET = "SELECT count(*) > 1 AND min(last_heartbeat) > max(created_at) FROM workers"


async def wait_until(parley: Parley, statement: str) -> None:
    while not await parley.value(statement):  # noqa: ASYNC110  # the database tells nobody
        await asyncio.sleep(0.02)


async def test_a_worker_takes_the_jobs_of_others_while_its_own_process_waits_for_a_place(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    turns = HeldTurns()
    async with open_parley(settings, address, model, works=False) as parley, asyncio.timeout(60):
        worker = Worker(parley.app.database, SystemClock(), turns.run, limits=Limits(grace_seconds=0))
        parley.app.events.notifier.add_worker(worker.jobs)
        # Another process stores messages, too.
        other = Inbox(parley.app.database, Notifier(parley.app.database))
        async with working(worker):
            while not worker.jobs.is_near:  # noqa: ASYNC110  # it tells nobody that it has begun
                await asyncio.sleep(0.02)
            async with parley.app.database.transaction() as session:
                await session.execute(text(LOCKED_PLACE), {"place": message("hello").place.key})
                accepting = asyncio.create_task(parley.accept("hello"))
                await wait_until(parley, WAITING)

                accepted = await other.accept(message("hello", user="bob"))

                assert (await turns.taken.get()).inbox_id == accepted.inbox_id
                assert not accepting.done()
            assert (await turns.taken.get()).inbox_id == (await accepting).inbox_id


async def test_a_worker_that_stops_leaves_what_its_process_accepts_to_others(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    turns, taken = HeldTurns(), asyncio.Queue[Job]()
    async with (
        open_parley(settings, address, model, works=False) as parley,
        asyncio.timeout(60),
        AsyncExitStack() as stack,
    ):
        near = Worker(parley.app.database, SystemClock(), turns.run, limits=Limits(grace_seconds=20))
        other = Worker(parley.app.database, SystemClock(), taken.put)
        parley.app.events.notifier.add_worker(near.jobs)
        (running,) = await stack.enter_async_context(working(near))
        await parley.accept("hello")
        await turns.taken.get()
        await stack.enter_async_context(working(other))
        await wait_until(parley, HAVE_MET)
        running.cancel()
        # It waits for its turn to end.
        while near.jobs.is_near:  # noqa: ASYNC110  # it tells nobody that it leaves
            await asyncio.sleep(0.02)

        accepted = await parley.accept("hello", user="bob")

        assert (await taken.get()).inbox_id == accepted.inbox_id
    # The first one was cancelled a second time, while it waited.
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "sweeper"]


async def test_a_message_is_stored_though_no_jobs_can_be_taken(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model) as parley:
        await parley.ask("hello")
        owner = await address.connect(as_owner=True)
        try:
            await owner.execute("REVOKE EXECUTE ON FUNCTION parley_take_jobs FROM public, parley_app")

            accepted = await parley.accept("hello again")

            assert accepted.is_new
            await owner.execute("GRANT EXECUTE ON FUNCTION parley_take_jobs TO parley_app")
        finally:
            await owner.close()
        async with asyncio.timeout(60):
            assert (await parley.app.events.response(accepted.inbox_id)).finished


async def test_a_message_that_is_edited_while_its_turn_is_prepared_is_answered_as_edited(
    parley: Parley, model: OpenAIStub
) -> None:
    model.play(lambda body, _number: Answer(f"You said: {last_user_text(body)}"))
    await parley.ask("hello")
    async with parley.app.database.transaction() as session:
        # What the turn begins with is read in its order: the message first, the agents last.
        await session.execute(text("LOCK TABLE agents"))
        asking = asyncio.create_task(parley.ask("the old text", event_id="7"))
        await wait_until(parley, STORED)

        edited = await change_message(parley.app.database, "test", "7", "the new text")

    assert edited is not None
    assert edited.turn_id is None
    assert "the new text" in (await asking).content
