"""`python -m tests.bench.vectors` fills in vectors of 100,000 memories from an embedder that answers after 10 ms."""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import uvloop
from pydantic import SecretStr
from rich.console import Console
from sqlalchemy import text

from adapters.tables import update_tables
from shared.clock import SystemClock
from shared.db.database import Address, Database, locate
from shared.memory.memories import Memories
from shared.memory.storage import NewMemory, Origin
from shared.memory.vectors import read_progress
from shared.messages import Place
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.connections import run_as_owner

MODEL = "openai/bench"
PEOPLE = 100
ADDED_AT_ONCE = 1000
EMBEDDER_SECONDS = 0.01
SAID = datetime(2026, 5, 4, tzinfo=UTC)
WORDS = ("garden", "invoice", "holiday", "train", "music", "doctor", "window", "coffee", "winter", "meeting", "river")


async def make_people(database: Database) -> list[int]:
    """Return the ids of new users."""
    async with database.transaction() as session:
        statement = text("INSERT INTO users (has_memories) SELECT false FROM generate_series(1, :count) RETURNING id")
        return list((await session.execute(statement, {"count": PEOPLE})).scalars())


def sentence(number: int) -> str:
    """Return a text of ten words, another one for each number."""
    return f"{number} " + " ".join(WORDS[(number * step + step) % len(WORDS)] for step in range(1, 10))


async def add(memories: Memories, people: Sequence[int], count: int) -> None:
    """Add facts of these people, in batches."""
    for start in range(0, count, ADDED_AT_ONCE):
        await memories.add(
            [
                NewMemory(
                    people[number % len(people)],
                    Origin(Place("bench", None, f"dm-{number % len(people)}", is_direct=True)),
                    sentence(number),
                    SAID,
                    source="fact",
                )
                for number in range(start, min(count, start + ADDED_AT_ONCE))
            ]
        )


async def make_due(address: Address) -> None:
    """Let the workers begin at once."""
    await run_as_owner(address, "UPDATE memories SET vectors_due_at = now()", "VACUUM ANALYZE memories")


async def measure(folder: Path, count: int, embedding_model: str) -> str:
    """Fill in the vectors of `count` memories and return what it took."""
    async with OpenAIStub(keep=1) as stub:
        stub.before_embedding = lambda _body: asyncio.sleep(EMBEDDER_SECONDS)
        settings = Settings(
            parley_home=folder,
            embedding_model=embedding_model,
            openai_base_url=stub.base_url,
            openai_api_key=SecretStr("sk-bench"),
        )
        address = locate(settings)
        await update_tables(address)
        database = Database(address)
        memories = Memories(database, settings, SystemClock(), capacity=count)
        await memories.warm()
        await add(memories, await make_people(database), count)
        await make_due(address)
        began = time.perf_counter()
        filled = await memories.fill_vectors()
        seconds = time.perf_counter() - began
        remainder = (await read_progress(database, memories.model or "")).missing
        await memories.aclose()
        await database.close()
    return f"{filled:,} memories in {seconds:.1f} s, {filled / seconds:,.0f} a second; {remainder:,} are left"


def main() -> None:
    """Parse the options, measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.vectors", description=__doc__)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--model", default=MODEL, help="local measures the model on this machine")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="parley-bench-", ignore_cleanup_errors=True) as folder:
        Console().print(uvloop.run(measure(Path(folder), options.memories, options.model)), highlight=False)


if __name__ == "__main__":
    main()
