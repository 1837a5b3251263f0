"""Concurrent clients with sequential turns, and their measurements."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Turn = Callable[[int, int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Load:
    """Number of concurrent clients, turns of each, and the model's behaviour."""

    clients: int
    turns_each: int
    tools: int = 0
    delay: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """Milliseconds of each turn; total seconds and processor seconds."""

    latencies: tuple[float, ...]
    seconds: float
    cpu: float = 0.0

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds

    @property
    def cpu_per_thousand(self) -> float:
        """Return processor seconds per 1,000 turns."""
        return self.cpu / len(self.latencies) * 1000


def merged(runs: list[Run]) -> Run:
    """Merge several runs into one."""
    latencies = tuple(latency for run in runs for latency in run.latencies)
    return Run(latencies, sum(run.seconds for run in runs), sum(run.cpu for run in runs))


def percentile(values: tuple[float, ...], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


async def drive(load: Load, turn: Turn) -> Run:
    """Run the clients' turns; `turn` gets the number of the client and of the turn."""
    latencies: list[float] = []

    async def client(number: int) -> None:
        for count in range(load.turns_each):
            start = time.perf_counter()
            await turn(number, count)
            latencies.append((time.perf_counter() - start) * 1000)

    run_start = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(load.clients)))
    return Run(tuple(latencies), time.perf_counter() - run_start)
