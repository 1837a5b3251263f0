"""`python -m tests.bench.memory` measures recall: what it finds beside plain BM25, what it leaks, how long it takes."""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from adapters.tables import update_tables
from shared.clock import SystemClock
from shared.db.database import Address, Database
from shared.db.embedded.server import start_postgres
from shared.memory.memories import Memories
from shared.settings import Settings
from tests.bench.__main__ import add_line, build_table
from tests.bench.figures import Figure, missed
from tests.bench.memory_quality import Quality, measure_quality
from tests.bench.memory_scale import make_memories, make_vectors, measure_inserts, measure_recall
from tests.bench.memory_topics import HELD_OUT, TUNED
from tests.bench.memory_turns import measure_turns


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: dialogues and their lines, memories of three persons, and of how many others, and turns."""

    dialogues: int
    lines: int
    own: tuple[int, int, int]
    others: int
    each: int
    runs: int
    inserts: int
    turns: int


WHOLE = Extent(
    dialogues=8, lines=600, own=(600, 20_000, 200_000), others=4_000, each=195, runs=200, inserts=10_000, turns=400
)
QUICK = Extent(dialogues=2, lines=150, own=(50, 100, 200), others=10, each=10, runs=5, inserts=500, turns=5)
# What each size may take at the 95th percentile, in milliseconds.
LONGEST = {20_000: 30, 200_000: 100}
PARTS = ("quality", "scale", "turns")


@asynccontextmanager
async def open_memories(home: Path, model: str | None) -> AsyncIterator[tuple[Address, Database, Memories]]:
    """Start a Postgres for the benchmark alone."""
    address = Address(start_postgres(home), is_embedded=True)
    await update_tables(address)
    database = Database(address)
    memories = Memories(database, Settings(parley_home=home, embedding_model=model), SystemClock())
    try:
        await memories.warm()
        yield address, database, memories
    finally:
        await memories.aclose()
        await database.close()


async def measured(home: Path, extent: Extent, model: str | None, parts: Sequence[str]) -> AsyncIterator[Figure]:
    async with open_memories(home / "memories", model) as (address, database, memories):
        for corpus in (TUNED, HELD_OUT) if "quality" in parts else ():
            seeds = range(extent.dialogues)
            quality = await measure_quality(memories, database, seeds=seeds, lines=extent.lines, corpus=corpus)
            for figure in to_figures(quality, corpus.name, with_embedder=model is not None):
                yield figure
        if "scale" in parts:
            async for figure in _scaled(address, memories, extent):
                yield figure
    if "turns" in parts:
        remembered, paused = await measure_turns(home, extent.turns)
        yield Figure("a turn, memory paused, p50", paused, "ms")
        yield Figure("remembering adds to a turn, p50", remembered - paused, "ms", at_most=1)


async def _scaled(address: Address, memories: Memories, extent: Extent) -> AsyncIterator[Figure]:
    owners = await make_memories(address, [*extent.own, *(extent.each for _ in range(extent.others))])
    measured_owners = owners[: len(extent.own)]
    if memories.model is not None:
        await make_vectors(address, memories, measured_owners)
    for owner in measured_owners:
        latency = await measure_recall(memories, owner, extent.runs)
        most = LONGEST.get(owner.count)
        yield Figure(f"recall of {owner.count:,} p50", latency.p50, "ms")
        yield Figure(f"recall of {owner.count:,} p95", latency.p95, "ms", at_most=most)
        yield Figure(f"recall of {owner.count:,} p99", latency.p99, "ms")
    rate = await measure_inserts(memories, owners[0].user_id, extent.inserts)
    yield Figure("memories stored", rate, "/s", at_least=2000)


def to_figures(quality: Quality, name: str, *, with_embedder: bool) -> list[Figure]:
    """Return what recall finds in the dialogues of this name, in shares of the questions."""
    share = quality.share
    more = 0.08 if with_embedder else 0.04
    return [
        Figure(f"{name}: plain BM25 any@5", share(quality.baseline_5)),
        Figure(f"{name}: plain BM25 any@10", share(quality.baseline_10)),
        Figure(f"{name}: recall any@5", share(quality.any_5), at_least=round(share(quality.baseline_5) + more, 3)),
        Figure(f"{name}: recall any@10", share(quality.any_10)),
        Figure(f"{name}: recall any@5 with neighbours", share(quality.shown)),
        Figure(f"{name}: changed facts, newest first", 1 - quality.outdated_first / max(1, quality.changed)),
        Figure(f"{name}: memories of others recalled", quality.leaks, at_most=0),
        # A token has about three quarters of an English word.
        Figure(f"{name}: a recall in the prompt", quality.words / max(1, quality.questions) * 4 / 3, "tokens"),
    ]


async def run(extent: Extent, model: str | None, parts: Sequence[str] = PARTS) -> list[Figure]:
    """Measure, show the table and return the figures."""
    table = build_table()
    table.title = f"Recall {'by words' if model is None else f'with {model}'}"
    figures = []
    with tempfile.TemporaryDirectory(prefix="parley-bench-", ignore_cleanup_errors=True) as folder:
        async for figure in measured(Path(folder), extent, model, parts):
            figures.append(figure)
            add_line(table, figure)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    return figures


def main() -> int:
    """Return 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of it, to test the benchmark itself")
    parser.add_argument("--model", help="measure with this embedding model, for instance local")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure only this; may be given several times")
    arguments = parser.parse_args()
    figures = asyncio.run(run(QUICK if arguments.quick else WHOLE, arguments.model, arguments.only or PARTS))
    return 1 if missed(figures) else 0


if __name__ == "__main__":
    sys.exit(main())
