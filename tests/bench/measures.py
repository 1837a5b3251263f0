"""The measurements and their order; floor and Parley alternate, so that a busy machine slows both."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from shared.db.embedded.server import start_postgres
from shared.processes.cores import count_cores
from tests.bench import loop, prefix, streams
from tests.bench.children import (
    Floor,
    Parley,
    cpu_seconds,
    memory_mb,
    running_floor,
    running_model,
    running_parley,
    shared_memory_mb,
)
from tests.bench.figures import Figure
from tests.bench.load import Load, Run, merged, percentile
from tests.bench.model import mark
from tests.bench.statements import address_of, count, counted, new_database
from tests.support.nats_server import running_nats
from tests.support.pgbouncer import shared

COUNTED_TURNS = 20
# Loads are repeated only within this time, so that a slow machine gets fewer rounds and not a longer benchmark.
REPEAT_SECONDS = 12
# Messages that one person sends at once.
FLOOD = 500
# So many that two workers, Postgres, the model and the clients are not each other's limit.
ENOUGH_CORES = 4


@dataclass(frozen=True, slots=True)
class Size:
    """Rounds of each load, and turns of a client in a round."""

    rounds: int
    turns: int
    busy_turns: int
    slow_turns: int
    waves: int
    streams: int
    quiet_turns: int
    watched: tuple[int, ...]


WHOLE = Size(rounds=3, turns=50, busy_turns=8, slow_turns=4, waves=15, streams=12, quiet_turns=20, watched=(50, 500))
QUICK = Size(rounds=1, turns=10, busy_turns=1, slow_turns=1, waves=2, streams=2, quiet_turns=3, watched=(20,))


@dataclass(frozen=True)
class Bench:
    """The running programs, and the size of the measurements."""

    home: Path
    parley: Parley
    floor: Floor
    model_pid: int
    base_url: str
    size: Size

    async def both(self, load: Load) -> tuple[Run, Run]:
        """Return Parley's and the floor's run of this load, in alternating rounds."""
        (runs,) = await self.compare(load)
        return runs

    async def compare(self, *loads: Load) -> list[tuple[Run, Run]]:
        """Return Parley's and the floor's run of each load; each round has all of them, in the same circumstances."""
        ours: list[list[Run]] = [[] for _ in loads]
        floors: list[list[Run]] = [[] for _ in loads]
        until = time.monotonic() + REPEAT_SECONDS * len(loads)
        while len(ours[0]) < self.size.rounds and time.monotonic() < until:
            for number, load in enumerate(loads):
                floors[number].append(await self.floor.play(load))
                ours[number].append(await self.parley.play(load))
        return [(merged(own), merged(floor)) for own, floor in zip(ours, floors, strict=True)]


async def starts(home: Path, base_url: str, size: Size) -> AsyncIterator[Figure]:
    """Start time in a new and in an existing folder; memory when ready and after the first answer."""
    async with running_parley(home, base_url) as parley:
        yield Figure("ready, new data folder", parley.ready_seconds, "s")
    fastest: Parley | None = None
    for _ in range(size.rounds):
        async with running_parley(home, base_url) as parley:
            if fastest is None or parley.ready_seconds < fastest.ready_seconds:
                fastest = parley
            await parley.say(0, "first", "hello")
            after = memory_mb(parley.pid)
    assert fastest is not None
    yield Figure("ready, data folder exists", fastest.ready_seconds, "s", at_most=2.4, aim=1)
    yield Figure("memory at ready", fastest.ready_mb, "MB", at_most=170)
    yield Figure("memory after the first answer", after, "MB", at_most=330)


async def workers(home: Path, base_url: str, size: Size) -> AsyncIterator[Figure]:
    """Two workers of one `parley run` against one, in alternation; memory of both."""
    cores = count_cores()
    async with AsyncExitStack() as closing:
        one, two = [
            await closing.enter_async_context(running_parley(make_folder(home / f"{count}"), base_url, count))
            for count in (1, 2)
        ]
        for parley in (one, two):
            await parley.say(0, "first", "hello")
        for load, goal in (
            (Load(clients=200, turns_each=size.slow_turns, delay=500), 1.7 if cores >= ENOUGH_CORES else 1.0),
            (Load(clients=50, turns_each=size.busy_turns), 1.0),
        ):
            runs = [(await one.play(load), await two.play(load)) for _ in range(size.rounds)]
            with_one, with_two = (merged(list(side)) for side in zip(*runs, strict=True))
            name = f"{load.delay}-ms model, {load.clients} clients, 2 workers / 1"
            yield Figure(f"{name}: turns/s", with_two.per_second, "", with_one.per_second, at_least=goal)
            cpu = with_two.cpu_per_thousand, with_one.cpu_per_thousand
            yield Figure(f"{name}: CPU per 1,000", cpu[0], "s", cpu[1])
        yield Figure("memory of 2 workers / 1", shared_memory_mb(two.pid), "MB", shared_memory_mb(one.pid), at_most=2.2)


async def poolers(home: Path, base_url: str, size: Size) -> AsyncIterator[Figure]:
    """Parley behind PgBouncer in transaction mode against Parley on the server itself, in alternation."""
    async with AsyncExitStack() as closing:
        direct = await closing.enter_async_context(running_parley(make_folder(home / "direct"), base_url))
        folder = make_folder(home / "pooled")
        await asyncio.to_thread(start_postgres, folder)
        address = structs.replace(address_of(folder), is_embedded=False)
        behind = await closing.enter_async_context(shared(address, default_pool_size=4))
        addresses = {
            "DATABASE_URL": structs.replace(behind, url=behind.pooler or behind.url).libpq(as_owner=True),
            "DATABASE_DIRECT_URL": address.libpq(as_owner=True),
        }
        pooled = await closing.enter_async_context(running_parley(folder, base_url, more=addresses))
        for load in (Load(clients=1, turns_each=size.turns), Load(clients=50, turns_each=size.busy_turns)):
            runs = [(await pooled.play(load), await direct.play(load)) for _ in range(size.rounds)]
            ours, theirs = (merged(list(side)) for side in zip(*runs, strict=True))
            name = f"pooler / direct, {load.clients} clients"
            middles = [percentile(run.latencies, 50) for run in (ours, theirs)]
            yield Figure(f"{name}: p50", middles[0], "ms", middles[1])
            yield Figure(f"{name}: turns/s", ours.per_second, "", theirs.per_second)
            yield Figure(f"{name}: CPU per 1,000", ours.cpu_per_thousand, "s", theirs.cpu_per_thousand)


async def many_streams(home: Path, base_url: str, size: Size) -> AsyncIterator[Figure]:
    """Answers that are read live at once, by a door beside the workers."""
    async with running_nats() as server:
        for name, more in {"NOTIFY": {}, "NATS": {"BUS_URL": server.url}}.items():
            folder = make_folder(home / f"streams-{name}")
            async for figure in streams.measure_all(name, size.watched, folder, base_url=base_url, more=more):
                yield figure


def make_folder(folder: Path) -> Path:
    folder.mkdir()
    # Where we are root, Postgres runs as another user.
    folder.parent.chmod(0o711)
    return folder


async def alone(bench: Bench) -> AsyncIterator[Figure]:
    """One client: the time of a turn beyond the model's, with and without tools."""
    load = Load(clients=1, turns_each=bench.size.turns)
    ours, floor = await bench.both(load)
    middle, tail, cpu = _figures("turn without tools", ours, floor)
    yield replace(middle, at_most=9.0, aim=6.0)
    yield tail
    yield Figure("p99 / p50", tail.value / middle.value, at_most=2)
    yield replace(cpu, at_most=28.0, aim=20.0)
    # In alternation: the search in a person's memories takes longer as the turns of the bench add to them.
    one, three = await bench.compare(replace(load, tools=1), replace(load, tools=3))
    with_one, with_three = _figures("turn with 1 tool", *one), _figures("turn with 3 tools", *three)
    for figure in (*with_one, *with_three):
        yield figure
    yield Figure("p50 with 3 tools / with 1", with_three[0].value / with_one[0].value, at_most=1.2)


def _figures(name: str, ours: Run, floor: Run) -> list[Figure]:
    return [
        Figure(f"{name}, p50", percentile(ours.latencies, 50), "ms", percentile(floor.latencies, 50)),
        Figure(f"{name}, p99", percentile(ours.latencies, 99), "ms", percentile(floor.latencies, 99)),
        Figure(f"{name}, CPU per 1,000", ours.cpu_per_thousand, "s", floor.cpu_per_thousand),
    ]


async def statements(bench: Bench) -> AsyncIterator[Figure]:
    """Statements of a turn: our own from claim to delivery, and all with the queue's."""
    own: dict[int, float] = {}
    for tools in (0, 1, 3):
        load = Load(clients=1, turns_each=COUNTED_TURNS, tools=tools)
        await bench.parley.play(replace(load, turns_each=2))
        async with counted(bench.home) as transactions:
            await bench.parley.play(load)
        counts = count(transactions, COUNTED_TURNS + 1)
        own[tools] = counts.own
        if tools != 1:
            name = f"statements, {tools} tools" if tools else "statements, no tools"
            yield Figure(f"{name}: own", counts.own, at_most=16)
            yield Figure(f"{name}: all", counts.all, at_most=30)
            yield Figure(f"{name.replace('statements', 'transactions')}: own", counts.own_transactions)
            yield Figure(f"{name.replace('statements', 'transactions')}: all", counts.all_transactions)
    yield Figure("statements that a wave of 3 adds", own[3] - own[0], at_most=2)


async def busy(bench: Bench) -> AsyncIterator[Figure]:
    """Fifty clients at once on a model that answers at once."""
    model_cpu = cpu_seconds(bench.model_pid)
    ours, floor = await bench.both(Load(clients=50, turns_each=bench.size.busy_turns))
    model_cpu = cpu_seconds(bench.model_pid) - model_cpu
    yield Figure("50 clients: turns/s", ours.per_second, "", floor.per_second, at_least=0.06, aim=0.08)
    yield Figure("50 clients: CPU per 1,000", ours.cpu_per_thousand, "s", floor.cpu_per_thousand)
    yield Figure("50 clients: share of time the model was busy", model_cpu / (ours.seconds + floor.seconds))


async def slow(bench: Bench) -> AsyncIterator[Figure]:
    """A model that thinks for 500 ms."""
    for clients in (50, 200):
        ours, floor = await bench.both(Load(clients=clients, turns_each=bench.size.slow_turns, delay=500))
        goal = {"at_least": 0.4, "aim": 0.55} if clients == 200 else {}
        yield Figure(f"500-ms model, {clients} clients: turns/s", ours.per_second, "", floor.per_second, **goal)


async def flood(bench: Bench) -> AsyncIterator[Figure]:
    """One person sends 500 messages at once, in as many places; another one's turns, from the first message on."""
    usual, waits = await bench.parley.beside_flood(FLOOD, bench.size.quiet_turns, mark(delay=2000))
    delay = (max(waits) - percentile(usual, 50)) / 1000
    yield Figure(f"beside {FLOOD} messages of one person, another one waits longer by", delay, "s", at_most=1)


async def loops(bench: Bench) -> AsyncIterator[Figure]:
    """The loop: concurrent tools, a streamed answer, a closed request."""
    waves = await loop.waves(bench.home, bench.base_url, bench.size.waves)
    yield Figure(
        "wave of 8 tools of 100 ms / of 1", percentile(waves[8], 50), "ms", percentile(waves[1], 50), at_most=1.3
    )
    result, whole = await loop.streams(bench.parley, bench.size.streams)
    yield Figure(
        "500-ms answer in 100 chunks, streamed", percentile(result, 50), "ms", percentile(whole, 50), at_most=1.05
    )
    stops = [await bench.parley.abandon(0, f"left-{number}", mark(delay=20_000)) for number in range(bench.size.rounds)]
    yield Figure("closed request: its turn ends after", max(stops), "s", at_most=1)


async def litellm(bench: Bench) -> AsyncIterator[Figure]:
    """The floor with litellm in it, for orientation."""
    load = Load(clients=1, turns_each=bench.size.turns)
    with_litellm, floor = await bench.floor.play(load, "litellm"), await bench.floor.play(load)
    name = "floor + litellm hosted_vllm/"
    yield Figure(f"{name}, p50", percentile(with_litellm.latencies, 50), "ms", percentile(floor.latencies, 50))
    yield Figure(f"{name}, CPU per 1,000", with_litellm.cpu_per_thousand, "s", floor.cpu_per_thousand)


async def prefixes(bench: Bench) -> AsyncIterator[Figure]:
    """Shared prefixes of consecutive prompts."""
    shares = await prefix.measure(bench.home, await new_database(bench.home, "prefix"))
    yield Figure("cacheable prefix, within a turn", shares.within_turn, at_least=0.95)
    yield Figure("cacheable prefix, over 20 turns", shares.over_turns, at_least=0.85, aim=0.9)


MEASURES: dict[str, Callable[[Bench], AsyncIterator[Figure]]] = {
    "alone": alone,
    "statements": statements,
    "busy": busy,
    "slow": slow,
    "flood": flood,
    "loop": loops,
    "litellm": litellm,
    "prefix": prefixes,
}
# These start programs of their own.
STARTING: dict[str, Callable[[Path, str, Size], AsyncIterator[Figure]]] = {
    "start": starts,
    "workers": workers,
    "pooler": poolers,
    "streams": many_streams,
}
NAMES = (*STARTING, *MEASURES)
# What fits into two minutes.
USUAL_NAMES = ("start", *MEASURES)


async def measured(home: Path, names: tuple[str, ...], size: Size) -> AsyncGenerator[Figure, None]:
    """Start everything in this folder, yield the figures of these measurements, and end all programs."""
    async with AsyncExitStack() as closing:
        base_url, model_pid = await closing.enter_async_context(running_model())
        for start in [start for name, start in STARTING.items() if name in names]:
            async for figure in start(home, base_url, size):
                yield figure
        chosen = [measure for name, measure in MEASURES.items() if name in names]
        if not chosen:
            return
        parley = await closing.enter_async_context(running_parley(home, base_url))
        floor = await closing.enter_async_context(running_floor(address_of(home).libpq(as_owner=True), base_url))
        await parley.say(0, "first", "hello")
        bench = Bench(home, parley, floor, model_pid, base_url, size)
        for measure in chosen:
            async for figure in measure(bench):
                yield figure
