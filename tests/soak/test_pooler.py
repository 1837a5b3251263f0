"""PgBouncer before the database, whose connections end again and again: nobody's memory is in another's prompt."""

import asyncio
import random
from pathlib import Path

import pytest

from adapters.tables import update_tables
from shared.clock import SystemClock
from shared.db.database import Address
from shared.db.hosts import URL
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.connections import connected
from tests.support.given_database import given_database
from tests.support.pgbouncer import pooled
from tests.support.recovery import cut_connections
from tests.support.serving import Serving, serving

pytestmark = pytest.mark.soak
SECONDS, PERSONS = 60, 8
REMEMBER, ASK = "remember for me: the code of my locker is code-{person}", "what is the code of my locker?"


async def test_people_behind_a_pooler_share_nothing(
    postgres: URL, settings: Settings, model: OpenAIStub, tmp_path: Path
) -> None:
    model.play(lambda _body, _number: Answer("Yes."))
    clock = SystemClock()
    free = {"DEFAULT_GUEST_TOKEN_BUDGET": "100000000", "EMBEDDING_MODEL": "off"}
    async with given_database(postgres) as upstream, pooled(upstream) as address:
        await update_tables(upstream)
        async with serving(settings, address, tmp_path, **free) as parley:
            end = clock.monotonic() + SECONDS
            cutting = asyncio.create_task(cut_until(end, clock, postgres, upstream))
            counts = await asyncio.gather(*(talk_until(end, clock, parley, person) for person in range(PERSONS)))
            await cutting
            assert await parley.stop(30) == 0
        async with connected(upstream) as owner:
            assert await owner.fetchval("SELECT count(*) FROM turns") == sum(counts)
    prompts = [str(request.body["messages"]) for request in model.requests]
    codes = [{f"code-{person}" for person in range(PERSONS) if f"code-{person}" in prompt} for prompt in prompts]
    assert max(map(len, codes)) == 1
    assert sum(map(bool, codes)) > PERSONS


async def cut_until(end: float, clock: SystemClock, postgres: URL, upstream: Address) -> None:
    chance = random.Random(24)  # noqa: S311  # the same cuts in each run
    while clock.monotonic() < end:
        await asyncio.sleep(chance.uniform(1, 6))
        await cut_connections(postgres, upstream)


async def talk_until(end: float, clock: SystemClock, parley: Serving, person: int) -> int:
    """Tell a secret, then ask for it in new chats; return how many messages that were."""
    count = 0
    while clock.monotonic() < end:
        content = ASK if count else REMEMBER.format(person=person)
        await parley.ask_until_answered(f"event-{person}-{count}", content=content, user=f"u{person}")
        count += 1
        await asyncio.sleep(0.1)
    return count
