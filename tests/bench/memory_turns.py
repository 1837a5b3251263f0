"""What remembering adds to a turn: turns of a person that are remembered, beside turns while it is paused."""

import time
from pathlib import Path

from tests.bench.children import TURNS_A_PLACE, Parley, running_model, running_parley
from tests.bench.load import percentile
from tests.bench.model import mark
from tests.bench.statements import address_of
from tests.support.connections import connected

# Turns before the measurement, so that there is something to recall.
FIRST = 20
PAUSE = "UPDATE users SET is_memory_paused = $1"


async def measure_turns(home: Path, turns: int) -> tuple[float, float]:
    """Return the median milliseconds of turns that are remembered and of turns that are not, one by one in turn.

    Both are the same person's and recall the same memories; remembering is paused for every second turn.
    """
    async with (
        running_model() as (base_url, _),
        running_parley(home, base_url) as parley,
        connected(address_of(home)) as owner,
    ):
        await _turn(parley, "first", 0)
        await parley.lift_budgets()
        for number in range(1, FIRST):
            await _turn(parley, "first", number)
        times: dict[bool, list[float]] = {True: [], False: []}
        for number in range(turns):
            # Whichever is first in one round is second in the next.
            for is_paused in (number % 2 == 0, number % 2 == 1):
                await owner.execute(PAUSE, is_paused)
                times[is_paused].append(await _turn(parley, f"paused-{is_paused}", number))
    return percentile(tuple(times[False]), 50), percentile(tuple(times[True]), 50)


async def _turn(parley: Parley, place: str, number: int) -> float:
    start = time.perf_counter()
    await parley.say(0, f"{place}-{number // TURNS_A_PLACE}", mark())
    return 1000 * (time.perf_counter() - start)
