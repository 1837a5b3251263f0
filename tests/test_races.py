"""Concurrent work on separate connections: users, events, budgets, places, people."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from shared.db.database import Address
from shared.messages import AgentResponse
from shared.settings import Settings
from tests.standins.openai_api import Answer
from tests.standins.openai_api.script import Body, last_user_text
from tests.support.parley import Parley, open_parley, texts

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

pytestmark = pytest.mark.settings(default_guest_token_budget=100_000_000, default_guest_modules=("file_manager",))


class HeldModel:
    """A model whose first answer waits until it is released; `said` are the messages that it was sent."""

    def __init__(self, parley: Parley) -> None:
        self.go = asyncio.Event()
        self.asked: list[str] = []
        parley.model.play(self)

    async def __call__(self, body: Body, number: int) -> Answer:
        self.asked.append(last_user_text(body).partition("\n\n<context>")[0])
        if number == 1:
            await self.go.wait()
        return Answer(f"answer {number}")


async def answers(parley: Parley, inbox_ids: Sequence[int]) -> list[AgentResponse]:
    """Wait for the answers to all of these messages."""
    async with asyncio.timeout(60):
        return await asyncio.gather(*map(parley.app.events.response, inbox_ids))


async def taken_up_again(parley: Parley) -> int:
    """Return how many turns had a second attempt, as after a deadlock."""
    count: int = await parley.value("SELECT count(*) FROM turns WHERE attempt > 1")
    return count


async def test_a_hundred_first_messages_of_one_person_make_one_user(parley: Parley) -> None:
    accepted = await asyncio.gather(*(parley.accept("hello", channel=f"c{number}") for number in range(100)))

    responses = await answers(parley, [acceptance.inbox_id for acceptance in accepted])

    assert {response.error for response in responses} == {None}
    assert await parley.value("SELECT count(*) FROM users") == 1
    assert await parley.value("SELECT count(*) FROM user_platform_links") == 1
    assert await parley.value("SELECT count(*) FROM conversations") == 100
    assert await taken_up_again(parley) == 0


async def test_an_event_that_comes_fifty_times_at_once_is_one_turn_with_one_reply(parley: Parley) -> None:
    accepted = await asyncio.gather(*(parley.accept("hello", event_id="42", adapter="fake") for _ in range(50)))

    responses = await answers(parley, [acceptance.inbox_id for acceptance in accepted])

    assert [acceptance.is_new for acceptance in accepted].count(True) == 1
    assert len({(response.turn_id, response.content) for response in responses}) == 1
    assert parley.model.count == 1
    assert len(await parley.platform.wait_for(1)) == 1
    assert await parley.value("SELECT count(*) FROM outbox") == 1


async def test_fifty_turns_at_once_keep_to_a_budget_with_room_for_three(parley: Parley) -> None:
    reservation = await reserved_by_one_call(parley)
    budget, spent = 2 * reservation + 1, reservation // 3
    await parley.sql("UPDATE users SET token_budget_monthly = :budget, tokens_used_this_month = 0", budget=budget)
    first_three = asyncio.Barrier(3)
    before = parley.model.count

    async def answer(_body: Body, number: int) -> Answer:
        if number <= before + 3:
            await first_three.wait()
        return Answer("paid", usage={"prompt_tokens": spent - 1, "completion_tokens": 1})

    parley.model.play(answer)
    parley.model.peak = 0
    accepted = await asyncio.gather(*(parley.accept("hello", channel=f"c{number}") for number in range(50)))
    responses = await answers(parley, [acceptance.inbox_id for acceptance in accepted])

    result = Counter(response.error for response in responses)
    tokens = await parley.value("SELECT tokens_used_this_month FROM users")
    assert parley.model.peak == 3
    assert budget <= tokens < budget + spent
    assert result == {None: tokens // spent, "budget_exhausted": 50 - tokens // spent}
    assert parley.model.count - before == result[None]
    assert await parley.value("SELECT tokens_reserved FROM users") == 0
    assert await taken_up_again(parley) == 0
    reply = await parley.ask("hello?", channel="afterwards")
    renews = await parley.value("SELECT to_char(budget_reset_at, 'DD FMMonth YYYY') FROM users")
    assert reply.content == f"You have used this month's budget; it renews on {renews}."
    assert (reply.iterations, parley.model.count - before) == (0, result[None])


async def reserved_by_one_call(parley: Parley) -> int:
    """Return what a hello in a new place reserves while its model answers."""
    model = HeldModel(parley)
    first = await parley.accept("hello", channel="measured")
    await parley.model.until(1)
    reservation: int = await parley.value("SELECT tokens_reserved FROM users")
    model.go.set()
    await answers(parley, [first.inbox_id])
    return reservation


async def test_two_workers_never_answer_in_one_place_at_the_same_time(
    parley: Parley, settings: Settings, address: Address
) -> None:
    running: Counter[str] = Counter()
    overlaps: list[str] = []

    async def answer(body: Body, _number: int) -> Answer:
        place = last_user_text(body).split()[1]
        overlaps.extend([place] if running[place] else [])
        running[place] += 1
        await asyncio.sleep(0.01)
        running[place] -= 1
        return Answer(f"hello from {place}")

    parley.model.play(answer)
    async with open_parley(settings, address, parley.model) as other:
        accepted = [
            await (parley, other)[number % 2].accept(
                f"room-{number % 4} hello", server="s", channel=f"room-{number % 4}", user=f"u{number}"
            )
            for number in range(40)
        ]
        responses = await answers(other, [acceptance.inbox_id for acceptance in accepted])

    assert overlaps == []
    assert texts(responses) == [f"hello from room-{number % 4}" for number in range(40)]
    assert parley.model.count == 40


async def test_two_people_at_once_in_one_channel_are_two_turns_each_on_its_own_account(parley: Parley) -> None:
    for user in ("ann", "bob"):
        await parley.ask("hello", user=user)
    await parley.sql(
        "UPDATE users SET permission_level = 'admin' WHERE id = "
        "(SELECT user_id FROM user_platform_links WHERE platform_user_id = 'ann')"
    )
    before = parley.model.count
    await parley.sql("DELETE FROM token_logs")

    pair = [parley.accept("who am I?", user=user, server="s", channel="general") for user in ("ann", "bob")]
    responses = await answers(parley, [acceptance.inbox_id for acceptance in await asyncio.gather(*pair)])

    assert len({response.turn_id for response in responses}) == 2
    modules = {
        last_user_text(request.body)[:3]: {
            tool["function"]["name"].partition("__")[0] for tool in request.body["tools"]
        }
        for request in list(parley.model.requests)[before:]
    }
    assert modules["Bob"] == {"file_manager"}
    assert modules["Ann"] >= {"file_manager", "knowledge"}
    paid = await parley.sql(
        "SELECT platform_user_id, count(*) FROM token_logs JOIN user_platform_links USING (user_id)"
        " GROUP BY 1 ORDER BY 1"
    )
    assert [tuple(row) for row in paid] == [("ann", 1), ("bob", 1)]


async def test_one_persons_empty_budget_does_not_silence_the_other_in_the_channel(parley: Parley) -> None:
    await parley.ask("hello", user="bob")
    await parley.sql("UPDATE users SET token_budget_monthly = 0")

    pair = [parley.accept("hello", user=user, server="s", channel="general") for user in ("bob", "ann")]
    bobs, anns = await answers(parley, [acceptance.inbox_id for acceptance in await asyncio.gather(*pair)])

    assert (bobs.error, anns.error) == ("budget_exhausted", None)


async def test_quick_messages_of_one_person_become_one_turn_in_the_order_they_were_sent(parley: Parley) -> None:
    model = HeldModel(parley)
    first = await parley.accept("first")
    await parley.model.until(1)
    tasks = [
        parley.accept(f"word {number}", sent_at=NOON + timedelta(seconds=number), adapter="http")
        for number in (3, 0, 4, 1, 2)
    ]
    quick = [acceptance.inbox_id for acceptance in await asyncio.gather(*tasks)]
    model.go.set()
    responses = await answers(parley, [first.inbox_id, *quick])

    assert model.asked == ["first", "word 0\nword 1\nword 2\nword 3\nword 4"]
    assert texts(responses) == ["answer 1", *["answer 2"] * 5]
    assert await parley.value("SELECT count(*) FROM outbox") == 2


async def test_another_persons_message_in_between_makes_turns_of_their_own(parley: Parley) -> None:
    model = HeldModel(parley)
    asks = asking(parley)
    first = await asks("cyd", "wait", 0)
    await parley.model.until(1)
    others = [
        await asks(*arguments)
        for arguments in (("ann", "three", 3), ("bob", "two", 2), ("ann", "one", 1), ("ann", "four", 4))
    ]
    model.go.set()
    responses = await answers(parley, [first, *others])

    assert model.asked == ["Cyd: wait", "Ann: one", "Bob: two", "Ann: three\n  four"]
    assert texts(responses) == ["answer 1", "answer 4", "answer 3", "answer 2", "answer 4"]


def asking(parley: Parley) -> Callable[[str, str, int], Awaitable[int]]:
    """Return a function that stores a sender's message in one channel, sent this many seconds after noon."""

    async def ask(user: str, content: str, second: int) -> int:
        sent_at = NOON + timedelta(seconds=second)
        return (await parley.accept(content, user=user, server="s", channel="general", sent_at=sent_at)).inbox_id

    return ask


async def test_a_thousand_messages_to_one_place_are_all_answered(parley: Parley) -> None:
    accepted = await asyncio.gather(*(parley.accept(f"message {number}") for number in range(1000)))

    responses = await answers(parley, [acceptance.inbox_id for acceptance in accepted])

    assert {response.error for response in responses} == {None}
    rows = await parley.sql("SELECT content FROM messages WHERE role = 'user'")
    assert sorted(line for row in rows for line in row[0].splitlines()) == sorted(f"message {n}" for n in range(1000))
    assert await parley.value("SELECT count(*) FROM inbox WHERE status <> 'answered'") == 0
    assert await parley.value("SELECT count(*) FROM turns") < 60
