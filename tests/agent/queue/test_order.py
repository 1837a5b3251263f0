"""Messages of one place are answered in the order of their times; if these are equal or missing, of their arrival."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from agent.queue import inbox
from agent.queue.job import Job, Limits
from agent.queue.worker import Worker
from shared.clock import SystemClock
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.parley import Parley, message, open_parley

# Who writes several messages in a row gets one answer to them.
MESSAGES, IN_A_ROW = 200, 5
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ORDER = "SELECT array_agg(id ORDER BY turn_id, id) FROM inbox"
TURNS = "SELECT count(*) FROM turns"

pytestmark = pytest.mark.settings(default_guest_token_budget=100_000_000)


@pytest.mark.parametrize("sent_at", [None, NOW], ids=["missing", "equal"])
async def test_messages_that_come_at_once_are_answered_as_they_arrived(
    parley: Parley, model: OpenAIStub, sent_at: datetime | None
) -> None:
    model.play(lambda _body, _number: Answer("ok"))

    async def ask(number: int) -> Any:
        event = replace(message("hello", user=f"person-{number // IN_A_ROW}", server="one"), sent_at=sent_at)
        accepted = await parley.app.inbox.accept(event)
        return await parley.app.events.response(accepted.inbox_id)

    async with asyncio.timeout(120):
        await asyncio.gather(*map(ask, range(MESSAGES)))

    order = await parley.value(ORDER)
    assert len(order) == MESSAGES
    assert order == sorted(order)
    assert MESSAGES / IN_A_ROW <= await parley.value(TURNS) < MESSAGES


@pytest.mark.parametrize("many", [False, True], ids=["alone", "together"])
async def test_a_message_that_is_still_being_stored_holds_up_later_ones_of_its_place(
    parley: Parley, many: bool
) -> None:
    async def accept(event: Any) -> None:
        before = [message("before", server=f"s{number}") for number in range(2)] if many else []
        await asyncio.gather(*map(parley.app.inbox.accept, (*before, event)))

    event = message("second", server="one", user="bob")
    async with parley.app.database.transaction() as session:
        # As the statement that stores the first one does, until it commits.
        first = replace(message("first", server="one"), sent_at=None, place=event.place)
        await inbox.accept_within(session, first)
        later = asyncio.create_task(accept(event))
        other = await parley.app.inbox.accept(message("elsewhere", server="two"))
        assert other.is_new
        assert not later.done()
    await later

    assert await parley.value("SELECT array_agg(content ORDER BY id) FROM inbox WHERE platform_server_id = 'one'") == [
        "first",
        "second",
    ]


async def test_messages_of_one_place_that_are_stored_together_keep_the_order_of_their_arrival(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        numbers = [100 + 77 * number % 200 for number in range(200)]
        events = [message(str(number), event_id=str(number), server="one") for number in numbers]
        await asyncio.gather(*(parley.app.inbox.accept(replace(event, sent_at=None)) for event in events))

        contents = await parley.value("SELECT array_agg(content ORDER BY sent_at, id) FROM inbox")
    assert contents == [str(number) for number in numbers]


async def test_the_next_job_of_a_place_starts_when_the_one_before_ends(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    queue: asyncio.Queue[Job] = asyncio.Queue()
    async with open_parley(settings, address, model, works=False) as parley, asyncio.timeout(60):
        accepted = [await parley.accept("hello", user=f"person-{number}") for number in range(20)]
        worker = Worker(parley.app.database, SystemClock(), queue.put, limits=Limits(poll_seconds=3600))
        working = asyncio.create_task(worker.run())
        try:
            jobs = [await queue.get() for _ in accepted]
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    assert [job.inbox_id for job in jobs] == [message.inbox_id for message in accepted]


async def test_the_next_turn_of_a_place_begins_when_the_reply_before_it_is_sent(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model, works=False) as idle:
        for user in ("ann", "bob", "cyd"):
            await idle.accept("hello", user=user, server="one", adapter="fake")
    async with open_parley(settings, address, model) as parley:
        await parley.platform.wait_for(3)
        # The last reply is marked as delivered just after it was posted.
        async with asyncio.timeout(30):
            while await parley.value("SELECT count(*) FROM jobs"):  # noqa: ASYNC110  # the worker notifies nobody
                await asyncio.sleep(0.01)
        overlaps = """
            SELECT count(*) FROM turns JOIN outbox AS earlier ON earlier.turn_id < turns.id
            WHERE turns.started_at < earlier.delivered_at
        """
        assert await parley.value(overlaps) == 0
        assert await parley.value("SELECT array_agg(attempts) FROM outbox") == [0, 0, 0]
