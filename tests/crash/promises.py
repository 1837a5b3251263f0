"""Promises that are checked after a fault, each as a query and what its rows must be."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import eq
from typing import Any, TypeVar

from tests.crash.ledger import FAULTS_OF_THE_LEDGER
from tests.crash.stage import Stage

# A worker uses about ten connections, and the embedded server has 100.
AT_ONCE = 3
Rows = list[tuple[Any, ...]]
Check = tuple[str, str, Callable[[Rows], bool]]
Point = TypeVar("Point")


def rows_are(*rows: tuple[Any, ...]) -> Callable[[Rows], bool]:
    """Return a check that a query returns these rows; without any, that it returns none."""
    return partial(eq, list(rows))


def every_turn() -> Iterator[Check]:
    """Yield what holds after each turn, whatever has happened."""
    yield "effects done twice", "SELECT 1 FROM stage_effects HAVING count(*) > 1", rows_are()
    # A recorded success needs an effect; an effect without a recorded success has an unknown outcome.
    query = "SELECT 1 FROM messages WHERE tool_name = 'stage.effect' AND content LIKE '%effect done%'"
    yield "invented effects", f"{query} AND NOT EXISTS (SELECT FROM stage_effects)", rows_are()
    yield "events", "SELECT turn_id FROM turn_events GROUP BY 1 HAVING count(*) <> count(DISTINCT seq)", rows_are()
    yield "jobs", "SELECT * FROM jobs WHERE worker_id IS NOT NULL", rows_are()
    yield from of_the_ledger()


def of_the_ledger() -> Iterator[Check]:
    """Yield what the ledger promises."""
    for name, query in FAULTS_OF_THE_LEDGER.items():
        yield name, query, rows_are()


async def find_broken(stage: Stage, checks: Iterable[Check]) -> list[str]:
    """Return every broken promise."""
    return [f"{name}: {rows}" for name, query, is_right in checks if not is_right(rows := await stage.rows(query))]


def list_deaths(points: Sequence[str]) -> list[str]:
    """Return those of consecutive points at which it makes a difference that a worker is killed, or freezes.

    Between the end of one thing and the beginning of the next, nothing leaves the process.
    """
    pairs = zip(points, [*points[1:], ""], strict=True)
    return [point for point, following in pairs if not (" after " in point and " before " in following)]


async def broken_at_each(points: Iterable[Point], play: Callable[[Point], Awaitable[list[str]]]) -> list[str]:
    """Play a turn with a fault at each of the points; return every broken promise."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(point: Point) -> list[str]:
        async with gate:
            return await play(point)

    return [broken for findings in await asyncio.gather(*map(one, points)) for broken in findings]
