"""The network to the database falls silent again and again under load: every message is answered exactly once."""

import asyncio
import random
from pathlib import Path

import pytest

from adapters.tables import update_tables
from shared.clock import SystemClock
from shared.db.hosts import URL
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.connections import connected
from tests.support.given_database import given_database
from tests.support.serving import Serving, serving
from tests.support.silent_network import Network, networked

pytestmark = pytest.mark.soak
SECONDS, CALLERS = 120, 10
# No turn may be given up: a silence is shorter than a turn's deadline.
SHORTEST, LONGEST = 3.0, 25.0


async def test_silences_lose_and_repeat_nothing(
    postgres: URL, settings: Settings, model: OpenAIStub, tmp_path: Path
) -> None:
    model.play(lambda _body, _number: Answer("Hello."))
    clock = SystemClock()
    async with given_database(postgres) as upstream, networked(upstream) as (network, address):
        await update_tables(upstream)
        async with serving(settings, address, tmp_path, DEFAULT_GUEST_TOKEN_BUDGET="100000000") as parley:
            end = clock.monotonic() + SECONDS
            falling = asyncio.create_task(fall_silent_until(end, clock, network))
            counts = await asyncio.gather(*(ask_until(end, clock, parley, caller) for caller in range(CALLERS)))
            await falling
            network.fall_silent()
            await parley.stop(30)
            network.heal()
        async with connected(upstream) as owner:
            assert await owner.fetchval("SELECT count(*) FROM inbox") == sum(counts)
            assert await owner.fetchval("SELECT count(*) FROM turns WHERE status = 'answered'") == sum(counts)
            assert await owner.fetchval("SELECT count(*) FROM users WHERE tokens_reserved <> 0") == 0


async def fall_silent_until(end: float, clock: SystemClock, network: Network) -> None:
    chance = random.Random(24)  # noqa: S311  # the same silences in each run
    while clock.monotonic() < end:
        await asyncio.sleep(chance.uniform(2, 8))
        network.fall_silent()
        await asyncio.sleep(chance.uniform(SHORTEST, LONGEST))
        network.heal()


async def ask_until(end: float, clock: SystemClock, parley: Serving, caller: int) -> int:
    """Ask one question after the other, each until it is answered; return how many."""
    count = 0
    while clock.monotonic() < end:
        answer = await parley.ask_until_answered(f"event-{caller}-{count}", user=f"u{caller}")
        assert answer["content"] == "Hello.", answer
        count += 1
        await asyncio.sleep(0.2)
    return count
