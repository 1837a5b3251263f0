"""`python -m tests.bench.capacity` measures what a turn costs, and simulates what so many messages a second need."""

import argparse
import asyncio
import heapq
import math
import random
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import asyncpg
from rich.console import Console
from rich.table import Table

from shared.db.pooling.room import WORKER_CONNECTIONS
from tests.bench.children import Parley, cpu_seconds, list_servers, running_model, running_parley
from tests.bench.load import Load, percentile
from tests.bench.statements import address_of
from tests.support.connections import connected

CLIENTS, TURNS = 20, 20
RATES = (1, 10, 100, 1000)
# A processor that is busy for more than this share of the time makes others wait for long.
MOST_BUSY = 0.6
SIMULATED_TURNS = 20_000
REMEMBER_SECONDS = 60
IS_FORGETFUL = """
SELECT EXISTS (SELECT FROM unremembered_turns) OR EXISTS (SELECT FROM memories WHERE NOT is_indexed)
"""
SECONDS_OF_MONTH = 30 * 86_400
# Of a turn's own time and of Postgres', what stands before each of its durable commits, roughly: the begin, which
# stores the message too, and the end. Beside several workers the door stores the message by itself. The model is asked
# before the last.
TOGETHER = ((0.4, 0.6), (0.6, 0.4))
APART = ((0.2, 0.15), (0.2, 0.45), (0.6, 0.4))


@dataclass(frozen=True, slots=True)
class Costs:
    """What one turn without tools costs: seconds of processors, and bytes; `flush` are the seconds of a flush.

    `model` are the seconds that the model takes.
    """

    own: float
    postgres: float
    wal: float
    stored: float
    flush: float = 0.002
    model: float = 2.0


@dataclass(frozen=True, slots=True)
class Need:
    """What a rate of messages a second needs, and the milliseconds that a turn takes beyond the model's."""

    rate: int
    worker_cores: int
    postgres_cores: int
    middle: float
    tail: float
    flushes: float


@dataclass(slots=True)
class Clock:
    """The time of a simulation, and what is to happen."""

    now: float = 0.0
    events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    count: int = 0

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        self.count += 1
        heapq.heappush(self.events, (self.now + seconds, self.count, act))

    def run(self) -> None:
        while self.events:
            self.now, _, act = heapq.heappop(self.events)
            act()


class Cores:
    """Processors with one line of those who wait."""

    def __init__(self, clock: Clock, count: int) -> None:
        self._clock, self._free = clock, count
        self._line: deque[tuple[float, Callable[[], None]]] = deque()

    def use(self, seconds: float, then: Callable[[], None]) -> None:
        self._line.append((seconds, then))
        self._begin()

    def _begin(self) -> None:
        while self._free and self._line:
            self._free -= 1
            seconds, then = self._line.popleft()
            self._clock.after(seconds, partial(self._end, then))

    def _end(self, then: Callable[[], None]) -> None:
        self._free += 1
        then()
        self._begin()


class Disk:
    """The log's disk: who commits during a flush waits for the next one, together with all others who do."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._line: list[Callable[[], None]] = []
        self._is_busy = False
        self.flushes = 0

    def flush(self, then: Callable[[], None]) -> None:
        self._line.append(then)
        if not self._is_busy:
            self._begin()

    def _begin(self) -> None:
        self._is_busy, batch, self._line = True, self._line, []
        self.flushes += 1
        self._clock.after(self._seconds, partial(self._end, batch))

    def _end(self, batch: list[Callable[[], None]]) -> None:
        self._is_busy = False
        for then in batch:
            then()
        if self._line and not self._is_busy:
            self._begin()


def simulate(costs: Costs, rate: int, turns: int = SIMULATED_TURNS, seed: int = 1) -> Need:
    """Let turns arrive by chance at this rate, at as many cores as keep each of them idle for 40 % of the time."""
    chance, clock = random.Random(seed), Clock()  # noqa: S311  # the same arrivals each time
    worker_cores = math.ceil(rate * costs.own / MOST_BUSY)
    postgres_cores = math.ceil(rate * costs.postgres / MOST_BUSY)
    workers, postgres = Cores(clock, worker_cores), Cores(clock, postgres_cores)
    disk, delays, shares = Disk(clock, costs.flush), [], TOGETHER if worker_cores == 1 else APART

    def begin() -> None:
        began = clock.now
        stages = iter_stages()

        def go_on() -> None:
            stage = next(stages, None)
            if stage is None:
                delays.append(1000 * (clock.now - began - costs.model))
            else:
                stage(go_on)

        go_on()

    def iter_stages() -> Iterator[Callable[[Callable[[], None]], None]]:
        for own, share in shares:
            if (own, share) == shares[-1]:
                yield partial(clock.after, costs.model)
            yield partial(workers.use, chance.expovariate(1 / (own * costs.own)))
            yield partial(postgres.use, chance.expovariate(1 / (share * costs.postgres)))
            yield disk.flush

    at = 0.0
    for _ in range(turns):
        at += chance.expovariate(rate)
        clock.after(at, begin)
    clock.run()
    return Need(
        rate,
        worker_cores,
        postgres_cores,
        middle=percentile(tuple(delays), 50),
        tail=percentile(tuple(delays), 99),
        flushes=disk.flushes / clock.now,
    )


async def measure(home: Path) -> Costs:
    """Return what a turn costs here, its memories included, on average of some hundred turns of several people."""
    async with (
        running_model() as (base_url, _),
        # Vectors come some seconds after the words: how many of them fall into the measurement would be chance.
        running_parley(home, base_url, more={"EMBEDDING_MODEL": "off"}) as parley,
        connected(address_of(home)) as owner,
    ):
        load = Load(clients=CLIENTS, turns_each=TURNS)
        await parley.play(load)
        before = await read_costs(parley, owner)
        run = await parley.play(load)
        after = await read_costs(parley, owner)
        # Each client has had a turn before those that are counted.
        turns = len(run.latencies) + CLIENTS
        own, postgres, wal, stored = ((end - begin) / turns for begin, end in zip(before, after, strict=True))
        return Costs(own=own, postgres=postgres, wal=wal, stored=stored)


async def read_costs(parley: Parley, owner: asyncpg.Connection) -> tuple[float, float, float, float]:
    """Return the seconds of processors and the bytes so far, once all turns are remembered."""
    async with asyncio.timeout(REMEMBER_SECONDS):
        while await owner.fetchval(IS_FORGETFUL):  # noqa: ASYNC110  # another process is watched, from outside
            # Seldom, as it is counted, too.
            await asyncio.sleep(1)
    return (
        cpu_seconds(parley.pid),
        sum(cpu_seconds(pid) for pid in list_servers(parley.home)),
        float(await owner.fetchval("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')")),
        float(await owner.fetchval("SELECT pg_database_size(current_database())")),
    )


def build_table(costs: Costs, rates: tuple[int, ...]) -> Table:
    """Return the table of what these rates need."""
    table = Table(
        title=f"A turn costs {1000 * costs.own:.1f} ms of a worker, {1000 * costs.postgres:.1f} ms of Postgres,"
        f" {costs.wal / 1000:.0f} kB of log, {costs.stored / 1000:.1f} kB of data; a flush {1000 * costs.flush:.1f} ms"
    )
    columns = ("messages/s", "worker cores", "Postgres cores", "connections", "log MB/s", "flushes/s", "GB a month")
    for name in (*columns, "added p50 ms", "added p99 ms"):
        table.add_column(name, justify="right")
    for need in (simulate(costs, rate) for rate in rates):
        table.add_row(
            str(need.rate),
            str(need.worker_cores),
            str(need.postgres_cores),
            str(need.worker_cores * WORKER_CONNECTIONS),
            f"{need.rate * costs.wal / 1e6:.2f}",
            f"{need.flushes:.0f}",
            f"{need.rate * costs.stored * SECONDS_OF_MONTH / 1e9:.0f}",
            f"{need.middle:.0f}",
            f"{need.tail:.0f}",
        )
    return table


def main() -> None:
    """Measure, unless the costs are named, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.capacity", description=__doc__)
    parser.add_argument("--own", type=float, metavar="MS", help="processor time of a worker for a turn")
    parser.add_argument("--postgres", type=float, metavar="MS", help="processor time of Postgres for a turn")
    parser.add_argument("--wal", type=float, default=20, metavar="KB", help="log of a turn, with both of these")
    parser.add_argument("--stored", type=float, default=8, metavar="KB", help="data of a turn, with both of these")
    parser.add_argument("--flush", type=float, default=2, metavar="MS", help="a flush of the log's disk")
    parser.add_argument("--rate", type=int, action="append", metavar="N", help="messages a second; several times")
    options = parser.parse_args()
    if options.own and options.postgres:
        costs = Costs(options.own / 1e3, options.postgres / 1e3, options.wal * 1e3, options.stored * 1e3)
    else:
        with tempfile.TemporaryDirectory(prefix="parley-capacity-", ignore_cleanup_errors=True) as folder:
            costs = asyncio.run(measure(Path(folder)))
    costs = replace(costs, flush=options.flush / 1e3)
    Console(width=150).print(build_table(costs, tuple(options.rate or RATES)))


if __name__ == "__main__":
    main()
