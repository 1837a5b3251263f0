"""Claims on replies: a process that wakes up late sends nothing that another process sends."""

import asyncio

import pytest
from msgspec.structs import replace

from agent.queue import outbox
from agent.queue.outbox import CERTAIN_SECONDS, Claim, Outbox, Reply, boot_seconds
from shared.errors import ClaimLost, Unavailable
from tests.support.parley import FakePlatform, Parley

STORE = """
INSERT INTO outbox (adapter, platform, platform_channel_id, place_key, reply_to, content, status, claimed_until)
VALUES ('fake', 'test', 'general', CAST(gen_random_uuid() AS text), 'question', 'the answer', 'claimed',
        now() + interval '12 seconds')
RETURNING *
"""


class FrozenPlatform(FakePlatform):
    """Its process is frozen between the checks of the claim; meanwhile the claim expires and another one posts."""

    def __init__(self, parley: Parley) -> None:
        super().__init__()
        self._parley = parley

    async def send(self, reply: Reply) -> str | None:
        """Wake up after somebody else has posted the reply."""
        await let_another_worker_send(self._parley)
        await freeze(reply).check_claim()
        return await super().send(reply)


def freeze(reply: Reply) -> Reply:
    """Let as much time pass for the claim as in a process that was frozen."""
    assert reply.claim is not None
    reply.claim.made_at -= 2 * CERTAIN_SECONDS
    return reply


async def let_another_worker_send(parley: Parley) -> None:
    """Let the claim expire, and the sweeper of another process send the reply."""
    await parley.sql("UPDATE outbox SET claimed_until = now()")
    await Outbox(parley.app.database, {"fake": parley.platform}).sweep()


async def claimed(parley: Parley) -> Reply:
    """Return a stored reply that this process has claimed."""
    row = (await parley.sql(STORE))[0]
    return replace(outbox.to_reply(row), claim=Claim(parley.app.database, row.id, 0, made_at=boot_seconds()))


async def test_a_process_that_was_frozen_before_it_sends_leaves_the_reply_to_the_other(parley: Parley) -> None:
    reply, late = await claimed(parley), FakePlatform()
    await let_another_worker_send(parley)
    await Outbox(parley.app.database, {"fake": late}).deliver(freeze(reply))

    assert [post.content for post in parley.platform.posts] == ["the answer"]
    assert late.posts == []


async def test_a_process_that_was_frozen_while_it_sends_posts_nothing_more(parley: Parley) -> None:
    late = FrozenPlatform(parley)
    await Outbox(parley.app.database, {"fake": late}).deliver(await claimed(parley))

    assert [post.content for post in parley.platform.posts] == ["the answer"]
    assert late.posts == []
    assert await parley.value("SELECT status FROM outbox") == "delivered"


async def test_a_claim_that_expired_unnoticed_is_renewed_and_used(parley: Parley) -> None:
    reply = await claimed(parley)
    await parley.sql("UPDATE outbox SET claimed_until = now()")
    await Outbox(parley.app.database, {"fake": parley.platform}).deliver(freeze(reply))

    assert [post.content for post in parley.platform.posts] == ["the answer"]
    assert reply.claim is not None
    assert boot_seconds() - reply.claim.made_at < CERTAIN_SECONDS


async def test_the_failure_of_a_late_delivery_does_not_release_the_reply_of_another_process(parley: Parley) -> None:
    reply = await claimed(parley)
    await parley.sql("UPDATE outbox SET attempts = 1")
    await Outbox(parley.app.database, {}).mark_failed(reply, str(Unavailable()))

    assert await parley.value("SELECT status FROM outbox") == "claimed"
    with pytest.raises(ClaimLost):
        await freeze(reply).check_claim()


async def test_a_stored_reply_that_can_not_be_read_does_not_hold_up_the_others(parley: Parley) -> None:
    await parley.sql(STORE)
    await parley.sql(STORE)
    await parley.sql(
        """UPDATE outbox SET files = '[{"of_another_release": 1}]' WHERE id = (SELECT min(id) FROM outbox)"""
    )

    await let_another_worker_send(parley)

    assert [post.content for post in parley.platform.posts] == ["the answer"]


async def test_deliveries_that_end_at_once_are_recorded_together(parley: Parley) -> None:
    replies = [await claimed(parley) for _ in range(20)]
    await asyncio.gather(*map(Outbox(parley.app.database, {"fake": parley.platform}).deliver, replies))

    rows = await parley.sql("SELECT xmin::text, platform_message_id FROM outbox WHERE status = 'delivered'")
    assert len({message_id for _, message_id in rows}) == 20
    assert len({transaction for transaction, _ in rows}) <= 2
