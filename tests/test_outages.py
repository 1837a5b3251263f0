"""A platform that is away for long: every answer arrives once, in the order of its place, and says when it is late."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from agent.queue.outbox import Outbox, Reply
from shared.db.database import Address
from shared.errors import Unavailable, Undeliverable
from shared.messages import Place
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.parley import Parley, open_parley

STORE = """
INSERT INTO outbox (adapter, platform, platform_channel_id, place_key, reply_to, content)
SELECT 'fake', 'test', 'c' || number % :places, 'c' || number % :places, 'question', CAST(number AS text)
FROM generate_series(0, :replies - 1) AS number
"""
# The pauses pass without waiting for them.
LET_TIME_PASS = (
    "UPDATE outbox SET claimed_until = now() WHERE status = 'pending'",
    "UPDATE delivery_outages SET next_probe_at = now()",
)


@dataclass
class Away:
    """A platform that does not answer while it `is_away`, or never for the places of `broken`."""

    is_away: bool = True
    broken: set[str] = field(default_factory=set)
    retry_after: float | None = None
    tries: list[str] = field(default_factory=list)
    posts: list[tuple[str, str]] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    def outage_scope(self, _place: Place) -> str:
        return ""

    async def send(self, reply: Reply) -> str | None:
        await reply.check_claim()
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        self.tries.append(reply.place.channel)
        if self.is_away or reply.place.channel in self.broken:
            raise Unavailable("The platform answers 503.", retry_after=self.retry_after)
        self.posts.append((reply.place.channel, reply.content))
        return f"post-{reply.id}"


@pytest.fixture
async def idle(settings: Settings, address: Address, model: OpenAIStub) -> AsyncIterator[Parley]:
    """A Parley without a worker."""
    async with open_parley(settings, address, model, works=False) as parley:
        yield parley


async def let_time_pass(parley: Parley) -> None:
    for statement in LET_TIME_PASS:
        await parley.sql(statement)


async def test_every_answer_of_a_long_outage_arrives_once_and_in_the_order_of_its_place(idle: Parley) -> None:
    platform = Away()
    workers = [Outbox(idle.app.database, {"fake": platform}) for _ in range(2)]
    await idle.sql(STORE, replies=60, places=12)
    await workers[0].sweep()
    assert await idle.value("SELECT is_down FROM delivery_outages")
    platform.tries.clear()
    platform.most_running = 0
    for _ in range(30):
        await let_time_pass(idle)
        await asyncio.gather(*(worker.sweep() for worker in workers))
    # One reply asks each time, and each time another place's.
    assert (len(platform.tries), platform.most_running) == (30, 1)
    assert max(Counter(platform.tries).values()) - min(Counter(platform.tries).values()) <= 1

    platform.is_away = False
    await idle.sql("UPDATE delivery_outages SET next_probe_at = now()")
    await asyncio.gather(*(worker.sweep() for worker in workers))
    await workers[0].sweep()

    assert len(platform.posts) == 60
    for place in range(12):
        contents = [int(content) for channel, content in platform.posts if channel == f"c{place}"]
        assert contents == list(range(place, 60, 12))
    assert await idle.value("SELECT count(*) FROM delivery_outages") == 0


async def test_an_answer_fails_only_when_it_is_of_no_use_any_more_and_says_why(idle: Parley) -> None:
    platform = Away()
    outbox = Outbox(idle.app.database, {"fake": platform}, hours=2)
    await idle.sql(STORE, replies=1, places=1)
    for _ in range(20):
        await let_time_pass(idle)
        await outbox.sweep()
    assert await idle.value("SELECT status FROM outbox") == "pending"

    await idle.sql("UPDATE outbox SET created_at = now() - interval '3 hours'")
    await let_time_pass(idle)
    await outbox.sweep()

    assert await idle.sql("SELECT status, error FROM outbox") == [("failed", "The platform answers 503.")]
    assert len(platform.tries) == 20


async def test_a_late_answer_says_so_and_one_in_time_does_not(idle: Parley) -> None:
    platform = Away(is_away=False)
    await idle.sql(STORE, replies=2, places=2)
    await idle.sql("UPDATE outbox SET created_at = now() - interval '11 minutes' WHERE content = '1'")
    await Outbox(idle.app.database, {"fake": platform}).sweep()

    assert sorted(content for _, content in platform.posts) == [
        "(This answer is late: I could not send it earlier.)\n\n1",
        "0",
    ]


async def test_a_place_that_fails_alone_holds_up_no_other_and_a_permanent_failure_frees_its_place(
    idle: Parley,
) -> None:
    platform = Away(is_away=False, broken={"c0"})
    outbox = Outbox(idle.app.database, {"fake": platform})
    await idle.sql(STORE, replies=30, places=10)
    for _ in range(5):
        await let_time_pass(idle)
        await outbox.sweep()
    assert len(platform.posts) == 27
    assert not any(channel == "c0" for channel, _ in platform.posts)

    await idle.sql("UPDATE outbox SET status = 'failed' WHERE content = '0'")
    platform.broken.clear()
    await outbox.sweep()
    assert [content for channel, content in platform.posts if channel == "c0"] == ["10", "20"]


async def test_a_permanent_failure_is_not_tried_again(idle: Parley) -> None:
    class Closed(Away):
        async def send(self, reply: Reply) -> str | None:
            raise Undeliverable("404 Unknown Channel")

    await idle.sql(STORE, replies=1, places=1)
    await Outbox(idle.app.database, {"fake": Closed()}).sweep()

    assert await idle.sql("SELECT status, error FROM outbox") == [("failed", "404 Unknown Channel")]


async def test_an_hour_that_the_platform_asks_for_is_obeyed_and_concerns_its_place_alone(idle: Parley) -> None:
    platform = Away(retry_after=3600.0)
    outbox = Outbox(idle.app.database, {"fake": platform})
    await idle.sql(STORE, replies=2, places=2)
    await outbox.sweep()
    platform.is_away = False
    await outbox.sweep()
    assert platform.posts == []
    assert await idle.value("SELECT count(*) FROM outbox WHERE claimed_until > now() + interval '59 minutes'") == 2

    await idle.sql(
        "INSERT INTO outbox (adapter, platform, platform_channel_id, place_key, content)"
        " VALUES ('fake', 'test', 'c', 'c', '3')"
    )
    await outbox.sweep()
    assert platform.posts == [("c", "3")]


async def test_the_death_of_the_process_that_asks_lets_another_one_ask(idle: Parley) -> None:
    platform = Away()
    outbox = Outbox(idle.app.database, {"fake": platform})
    await idle.sql(STORE, replies=6, places=6)
    await outbox.sweep()
    await let_time_pass(idle)
    # A process claims the reply that asks, and is killed.
    claimed = await idle.sql("SELECT id FROM parley_claim_replies(ARRAY['fake'], 20, 12, 24)")
    assert len(claimed) == 1
    platform.is_away = False
    await outbox.sweep()
    assert platform.posts == []

    await idle.sql("UPDATE outbox SET claimed_until = now() WHERE status = 'claimed'")
    await idle.sql("UPDATE delivery_outages SET next_probe_at = now()")
    await outbox.sweep()
    assert len(platform.posts) == 6


async def test_a_clock_that_was_set_back_holds_up_nothing(idle: Parley) -> None:
    platform = Away()
    outbox = Outbox(idle.app.database, {"fake": platform})
    await idle.sql(STORE, replies=4, places=4)
    await outbox.sweep()
    platform.is_away = False
    # What is said of a command if its process dies.
    await idle.sql(STORE, replies=1, places=1)
    await idle.sql("UPDATE outbox SET status = 'noted', place_key = 'noted', claimed_until = now() WHERE attempts = 0")
    await idle.sql(
        "UPDATE outbox SET claimed_until = claimed_until + interval '1 day', tried_at = tried_at + interval '1 day'"
    )
    assert await idle.value("SELECT replies FROM admin.queue_depth") == 5
    await idle.sql("UPDATE delivery_outages SET next_probe_at = next_probe_at + interval '1 day'")
    await outbox.sweep()

    assert len(platform.posts) == 5


async def test_a_fresh_answer_does_not_overtake_one_that_waits_and_asks_nothing_of_a_platform_that_is_away(
    parley: Parley,
) -> None:
    await parley.sql(STORE, replies=1, places=1)
    await parley.sql(
        "UPDATE outbox SET status = 'pending', claimed_until = now() + interval '1 hour', tried_at = now(),"
        " place_key = 'test:s:general:'"
    )
    await parley.sql(
        "INSERT INTO delivery_outages (adapter, scope, place_key, is_down, next_probe_at, error)"
        " VALUES ('fake', 'elsewhere', '', true, now() + interval '1 minute', '')"
    )

    await parley.ask("hello", adapter="fake", server="s")
    await parley.ask("hello", adapter="fake", server="elsewhere")
    assert await parley.value("SELECT count(*) FROM outbox WHERE status = 'pending' AND attempts = 0") == 3
    assert parley.platform.posts == []

    await parley.sql("DELETE FROM delivery_outages")
    await parley.sql("UPDATE outbox SET claimed_until = NULL")
    posts = await parley.platform.wait_for(3)
    assert posts.index("0") < max(index for index, post in enumerate(posts) if post != "0")
