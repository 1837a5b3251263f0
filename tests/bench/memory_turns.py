"""What remembering adds to a turn: the turns of a person whose memory is on, beside those of one who has paused it."""

import time
from pathlib import Path

import asyncpg

from tests.bench.children import TURNS_A_PLACE, Parley, running_model, running_parley
from tests.bench.load import percentile
from tests.bench.model import mark
from tests.bench.statements import owner_dsn

PAUSE = """
UPDATE users SET is_memory_paused = true
WHERE id = (SELECT user_id FROM user_platform_links WHERE platform_user_id = 'client-1')
"""


async def measure_turns(home: Path, turns: int) -> tuple[float, float]:
    """Return the median milliseconds of turns that are remembered and of turns that are not, one by one in turn."""
    async with running_model() as (base_url, _), running_parley(home, base_url) as parley:
        await _turn(parley, client=0, number=0)
        await _turn(parley, client=1, number=0)
        await parley.lift_budgets()
        owner = await asyncpg.connect(owner_dsn(home))
        await owner.execute(PAUSE)
        await owner.close()
        taken: tuple[list[float], list[float]] = ([], [])
        for number in range(1, turns + 1):
            # Whoever is first in one round is second in the next.
            for client in (number % 2, 1 - number % 2):
                taken[client].append(await _turn(parley, client, number))
    return percentile(tuple(taken[0]), 50), percentile(tuple(taken[1]), 50)


async def _turn(parley: Parley, client: int, number: int) -> float:
    begun = time.perf_counter()
    await parley.say(client, f"place-{number // TURNS_A_PLACE}", mark())
    return 1000 * (time.perf_counter() - begun)
