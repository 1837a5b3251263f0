"""One person's flood of messages does not keep others waiting: slots are bounded, and everybody has a turn."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body, last_user_text
from tests.support.parley import Parley, message, open_parley

SLOTS, PER_PERSON, PER_SERVER = 6, 4, 5

pytestmark = pytest.mark.settings(
    default_guest_token_budget=100_000_000,
    max_turns=SLOTS,
    max_turns_per_person=PER_PERSON,
    max_turns_per_server=PER_SERVER,
)


@dataclass
class HoldingModel:
    """A model that answers at once, but holds its answers to messages that begin with "hold" until `go` is set."""

    go: asyncio.Event = field(default_factory=asyncio.Event)
    held: Counter[str] = field(default_factory=Counter)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    order: list[str] = field(default_factory=list)

    async def __call__(self, body: Body, _number: int) -> Answer:
        question = last_user_text(body).partition("\n\n<context>")[0].rpartition(": ")[2]
        self.order.append(question)
        if question.startswith("hold"):
            async with self.changed:
                self.held[question] += 1
                self.changed.notify_all()
            await self.go.wait()
        return Answer(f"heard {question}")

    async def until(self, count: int) -> None:
        """Wait until so many answers are held."""
        async with asyncio.timeout(120), self.changed:
            await self.changed.wait_for(lambda: self.held.total() >= count)


@pytest.fixture
async def holding(parley: Parley) -> AsyncIterator[HoldingModel]:
    """Parley's model, which holds some answers."""
    model = HoldingModel()
    parley.model.play(model)
    yield model
    model.go.set()


async def test_a_quiet_person_is_answered_while_a_flood_holds_all_slots_that_it_may(
    parley: Parley, holding: HoldingModel
) -> None:
    flood = [await parley.accept("hold", user="cyd", channel=f"c{number}") for number in range(3 * SLOTS)]
    await holding.until(PER_PERSON)

    answer = await parley.ask("hello", user="ann")

    assert answer.content == "heard hello"
    assert holding.held.total() == PER_PERSON
    holding.go.set()
    assert {(await parley.app.events.response(message.inbox_id)).error for message in flood} == {None}


async def test_the_people_of_one_server_share_its_bound(parley: Parley, holding: HoldingModel) -> None:
    for number in range(2 * SLOTS):
        await parley.accept("hold", user=f"u{number}", server="s", channel=f"c{number}")
    await holding.until(PER_SERVER)

    elsewhere = await parley.ask("hello", user="ann", server="t")

    assert elsewhere.content == "heard hello"
    assert holding.held.total() == PER_SERVER


async def test_turns_are_taken_round_robin_over_persons(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    playing = HoldingModel()
    model.play(playing)
    one_by_one = settings.model_copy(update={"max_turns": 1})
    async with open_parley(one_by_one, address, model, works=False) as idle:
        accepted = [
            await idle.accept(f"{user} {number}", user=user, channel=f"{user}-{number}")
            for user, count in (("cyd", 5), ("bob", 3), ("ann", 1))
            for number in range(count)
        ]
    async with open_parley(one_by_one, address, model) as parley:
        for message in accepted:
            await parley.app.events.response(message.inbox_id)

    assert playing.order == [
        *("cyd 0", "bob 0", "ann 0"),
        *("cyd 1", "bob 1"),
        *("cyd 2", "bob 2"),
        *("cyd 3", "cyd 4"),
    ]


async def test_who_waits_for_budget_holds_no_slot(settings: Settings, address: Address, model: OpenAIStub) -> None:
    playing = HoldingModel()
    model.play(playing)
    two_slots = settings.model_copy(update={"max_turns": 2})
    async with open_parley(two_slots, address, model) as parley:
        await parley.ask("hello", user="cyd")
        await parley.sql("UPDATE users SET token_budget_monthly = tokens_used_this_month + 1")
        flood = [await parley.accept("hold", user="cyd", channel=f"c{number}") for number in range(PER_PERSON)]
        await playing.until(1)
        await _until_begun(parley, 1 + PER_PERSON)

        answer = await parley.ask("hello", user="ann")

        assert answer.content == "heard hello"
        playing.go.set()
        errors = Counter([(await parley.app.events.response(message.inbox_id)).error for message in flood])
        assert errors == {None: 1, "budget_exhausted": PER_PERSON - 1}


async def _until_begun(parley: Parley, count: int) -> None:
    async with asyncio.timeout(120):
        while await parley.value("SELECT count(*) FROM turns") < count:  # noqa: ASYNC110  # the worker notifies nobody
            await asyncio.sleep(0.01)


async def test_a_burst_of_one_person_is_stored_in_a_few_transactions_so_that_nobody_waits_for_each_of_its_commits(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        flood = [message("hello", user="cyd", channel=f"c{number}") for number in range(500)]
        quiet = message("hello", user="ann")
        await asyncio.gather(*map(parley.app.inbox.accept, (*flood, quiet)))

        assert await parley.value("SELECT count(*) FROM inbox") == 501
        assert await parley.value("SELECT count(DISTINCT created_at) FROM inbox") <= 4
        # The first message of each of the two persons comes before the flood's others, which stand in a row.
        priorities = await parley.value("SELECT array_agg(priority ORDER BY priority DESC) FROM jobs")
        assert priorities == [0, *range(0, -500, -1)]
