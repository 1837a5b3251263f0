"""Those who end turns, store messages and sweep wait for each other in no circle, and a heartbeat waits for nobody."""

import asyncio
import json

import asyncpg

from agent.queue.inbox import Accepted, to_event
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body
from tests.support.connections import until_somebody_waits
from tests.support.eventually import PATIENCE
from tests.support.parley import Parley, message, open_parley

# Who waits for a lock for that long waits for somebody who waits for it, too.
IN_A_CIRCLE = "100ms"


async def begin_turn(parley: Parley) -> tuple[Accepted, asyncio.Event]:
    """Store a message and wait until its turn asks the model, which answers when the event is set."""
    is_asked, go = asyncio.Event(), asyncio.Event()

    async def answer(_body: Body, _number: int) -> Answer:
        is_asked.set()
        await go.wait()
        return Answer("hello")

    parley.model.play(answer)
    accepted = await parley.accept("hello")
    await is_asked.wait()
    return accepted, go


async def test_a_turn_ends_beside_a_message_to_its_person_from_who_changes_their_limits(
    parley: Parley, owner: asyncpg.Connection
) -> None:
    accepted, go = await begin_turn(parley)
    async with owner.transaction():
        # As a decision does that gives a person more, and tells them so.
        await owner.execute("SELECT parley_lock_user(id) FROM users")
        go.set()
        await until_somebody_waits(owner)
        await owner.execute(f"SET LOCAL lock_timeout = '{IN_A_CIRCLE}'")
        await owner.execute("SELECT parley_accept($1::jsonb)", json.dumps([to_event(message("granted"))]))

    async with asyncio.timeout(PATIENCE):
        assert (await parley.app.events.response(accepted.inbox_id)).content == "hello"


async def test_a_worker_lives_while_somebody_holds_what_the_end_of_a_reservation_waits_for(
    parley: Parley, owner: asyncpg.Connection
) -> None:
    accepted, go = await begin_turn(parley)
    async with owner.transaction():
        # As who erases a person, for as long as that takes.
        await owner.execute("SELECT FROM turns FOR UPDATE")
        await parley.sql("UPDATE budget_reservations SET expires_at = now()")
        await until_somebody_waits(owner)
        last = await parley.value("SELECT max(last_heartbeat) FROM workers")
        async with asyncio.timeout(PATIENCE):
            while await parley.value("SELECT max(last_heartbeat) FROM workers") == last:  # noqa: ASYNC110  # it tells nobody
                await asyncio.sleep(0.05)
    go.set()

    async with asyncio.timeout(PATIENCE):
        assert (await parley.app.events.response(accepted.inbox_id)).content == "hello"


async def test_a_process_ends_although_the_database_does_not_take_its_notes(
    settings: Settings, address: Address, model: OpenAIStub, owner: asyncpg.Connection
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        notifier = parley.app.events.notifier
        async with owner.transaction():
            # Which worker is told of a job is looked up there.
            await owner.execute("LOCK TABLE workers")
            notifier.announce_job()
            await until_somebody_waits(owner)
            async with asyncio.timeout(PATIENCE):
                await notifier.close()
