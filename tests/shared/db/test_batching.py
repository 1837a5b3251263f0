"""Requests made at the same moment are loaded together; each caller gets its own result."""

import asyncio
from collections.abc import Sequence

import pytest

from agent.queue.inbox import Accepted, Inbox
from shared.db.batching import MAX_BATCH, BatchLoader
from shared.db.database import Address, DatabaseLost
from shared.errors import EventIdInUse
from shared.messages import Decision
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.parley import Parley, message, open_parley


class Counter:
    """Doubles numbers; a batch with a negative one is refused, and everything is while `is_broken`."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.was_asked = asyncio.Event()
        self.is_broken = False
        self.may_answer = asyncio.Event()

    async def ask(self, numbers: Sequence[int]) -> list[int]:
        self.asked.append(list(numbers))
        self.was_asked.set()
        await self.may_answer.wait()
        if self.is_broken:
            raise DatabaseLost
        if min(numbers) < 0:
            raise ValueError(str(min(numbers)))
        return [number * 2 for number in numbers]


async def test_what_is_asked_while_a_statement_runs_goes_with_the_next_one() -> None:
    counter = Counter()
    loader = BatchLoader(counter.ask)

    first = asyncio.create_task(loader.load(1))
    await counter.was_asked.wait()
    others = [asyncio.create_task(loader.load(number)) for number in range(2, MAX_BATCH + 12)]
    await asyncio.sleep(0)
    counter.may_answer.set()

    assert await asyncio.gather(first, *others) == [number * 2 for number in range(1, MAX_BATCH + 12)]
    assert [len(batch) for batch in counter.asked] == [1, MAX_BATCH, 10]
    assert await loader.load(7) == 14


async def test_one_that_is_refused_fails_alone_and_a_lost_connection_fails_all() -> None:
    counter = Counter()
    loader = BatchLoader(counter.ask)
    counter.may_answer.set()

    results = await asyncio.gather(*(loader.load(number) for number in (1, -2, 3)), return_exceptions=True)
    assert results[0::2] == [2, 6]
    assert isinstance(results[1], ValueError)
    counter.is_broken = True
    lost = await asyncio.gather(*(loader.load(number) for number in (1, 2)), return_exceptions=True)
    assert [type(result) for result in lost] == [DatabaseLost] * 2
    counter.is_broken = False
    assert await loader.load(4) == 8


async def test_whoever_gives_up_waiting_takes_nothing_from_the_others() -> None:
    counter = Counter()
    loader = BatchLoader(counter.ask)

    impatient, patient = asyncio.create_task(loader.load(1)), asyncio.create_task(loader.load(2))
    await counter.was_asked.wait()
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    counter.may_answer.set()

    assert await patient == 4


async def test_events_that_come_together_are_stored_and_answered_like_those_that_come_alone(parley: Parley) -> None:
    strange = '\\ "quotes" \n 🐸 {"a": null} \x00 </script>'
    messages = [message(f"hello {number}", event_id=f"e{number}", channel=f"room-{number}") for number in range(5)]
    messages.append(message(strange, event_id="strange", channel="room-9", decision=Decision(7, approved=True)))
    await parley.app.inbox.accept(messages[2])
    stolen = message("mine", event_id="e3", channel="a-room-that-sorts-first", user="eve")

    inbox = parley.app.inbox
    results = await asyncio.gather(
        *(inbox.accept(event) for event in (*messages, stolen, messages[0])), return_exceptions=True
    )

    accepted = [result for result in results if isinstance(result, Accepted)]
    assert isinstance(results[6], EventIdInUse)
    assert len(accepted) == 7
    assert not accepted[2].is_new
    assert accepted[0].inbox_id == accepted[-1].inbox_id
    async with asyncio.timeout(60):
        for acceptance in accepted:
            await parley.app.events.response(acceptance.inbox_id)
    rows = await parley.sql(
        "SELECT content, decision IS NULL, platform_context, sent_at, attachments FROM inbox ORDER BY id"
    )
    assert len(rows) == 6
    assert {tuple(row)[1] for row in rows if row.content.startswith("hello")} == {True}
    assert (strange.replace("\x00", ""), False) in [tuple(row)[:2] for row in rows]


async def test_processes_that_are_told_the_same_events_at_once_store_each_of_them_once(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    messages = [message("hello", event_id=f"e{number}", channel=f"room-{number}") for number in range(200)]
    async with open_parley(settings, address, model, works=False) as parley:
        result = await asyncio.gather(
            *(
                inbox.accept(event)
                for part in (messages, messages[::-1], messages[50:])
                for inbox in [Inbox(parley.app.database, parley.app.events.notifier)]
                for event in part
            )
        )

        assert sum(acceptance.is_new for acceptance in result) == 200
        assert await parley.value("SELECT count(*) FROM inbox") == 200
        assert await parley.value("SELECT count(*) FROM jobs") == 200
