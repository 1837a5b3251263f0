"""`python -m tests.bench.growth` fills a database with a million turns of ten months, and measures what is left to do.

It prints how long turns take, alone and beside the removal of a month; how long that month and the vacuum after it
take; and how long it takes to erase people with few and with many turns. Four minutes on two cores.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import uvloop
from pydantic import SecretStr
from rich.console import Console

from adapters.cli.worker import build_worker
from adapters.tables import update_tables
from agent.llm.providers.library import import_litellm
from agent.personal_data.erasure import erase, request_erasure
from agent.queue.maintenance.retention import remove_expired
from agent.queue.maintenance.steps import Steps
from shared.clock import SystemClock
from shared.db.database import Address, locate
from shared.log import configure_logging
from shared.settings import Settings
from tests.bench.children import cpu_seconds
from tests.bench.growth_rows import DAYS, write_month, write_people
from tests.bench.load import percentile
from tests.standins.openai_api import OpenAIStub
from tests.support.connections import connected, run_as_owner
from tests.support.parley import Parley, open_parley
from tests.support.processes import list_children

MONTHS = 10
# The first month has expired.
KEPT_DAYS = (MONTHS - 1) * DAYS - 2
TABLES = ("turns", "messages", "turn_events", "turn_contexts", "token_logs", "inbox", "outbox")
QUICK = ("fsync = off", "synchronous_commit = off", "full_page_writes = off", "max_wal_size = '2GB'")
AUTOVACUUM = ("autovacuum = off",)
SIZES = """
SELECT sum(pg_total_relation_size(relid))
FROM (SELECT relid FROM pg_partition_tree($1::regclass) UNION SELECT $1::regclass) AS parts
"""
DEAD_ROWS = """
SELECT sum(n_dead_tup) FROM pg_stat_user_tables
WHERE relid IN (SELECT relid FROM pg_partition_tree($1::regclass) UNION SELECT $1::regclass)
"""
TURNS_BY_PERSON = """
SELECT user_id, count(*) AS turns FROM turns JOIN user_platform_links AS account USING (user_id)
WHERE account.platform = 'past' GROUP BY user_id ORDER BY count(*) DESC
"""
console = Console(width=120, highlight=False)


def tell(name: str, value: str) -> None:
    """Print a figure."""
    console.print(f"{name:<58}{value:>30}")


async def seconds_of(work: Awaitable[Any]) -> float:
    """Return how long something takes."""
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


async def set_server(address: Address, *lines: str) -> None:
    """Set the server's settings, or reset all of them."""
    statements = [f"ALTER SYSTEM SET {line}" for line in lines] or ["ALTER SYSTEM RESET ALL"]
    await run_as_owner(address, *statements, "SELECT pg_reload_conf()")


async def fill(address: Address, turns: int) -> None:
    """Write the turns, as if each month had been the present one, with the maintenance of its days."""
    await set_server(address, *QUICK, *AUTOVACUUM)
    async with connected(address) as owner:
        await write_people(owner)
        for month in reversed(range(MONTHS)):
            await write_month(owner, turns // MONTHS, month * DAYS)
            await owner.execute("SELECT parley_make_partitions($1)", KEPT_DAYS)
        await owner.execute("VACUUM ANALYZE")
    await set_server(address)
    await set_server(address, *AUTOVACUUM)


async def tell_sizes(owner: asyncpg.Connection, turns: int) -> None:
    """Print the bytes of each table for a turn."""
    sizes = {table: int(await owner.fetchval(SIZES, table) or 0) for table in TABLES}
    tell("bytes a turn", f"{sum(sizes.values()) / turns:,.0f}")
    console.print("   " + ", ".join(f"{table} {size / turns:,.0f}" for table, size in sizes.items()))


async def tell_vacuum(owner: asyncpg.Connection, after: str) -> None:
    """Vacuum each table as autovacuum does, and print the seconds, with the rows that were dead."""
    await owner.execute("SELECT pg_stat_force_next_flush()")
    parts = []
    for table in TABLES:
        dead = int(await owner.fetchval(DEAD_ROWS, table) or 0)
        seconds = await seconds_of(owner.execute(f"VACUUM {table}"))
        parts.append((seconds, f"{table} {seconds:.2f} ({dead:,} dead)"))
    tell(f"vacuum after {after}, longest of a table", f"{max(parts)[0]:.2f} s")
    console.print("   " + ", ".join(text for _, text in parts))


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Parley, Address, Settings]]:
    """Open a Parley on an embedded database, without a worker."""
    import_litellm()
    async with OpenAIStub(keep=1) as model:
        settings = Settings(
            parley_home=folder,
            llm_models=("openai/stub",),
            openai_base_url=model.base_url,
            openai_api_key=SecretStr("sk-bench"),
            embedding_model="off",
            default_guest_token_budget=10**9,
        )
        address = locate(settings)
        await update_tables(address)
        async with open_parley(settings, address, model, works=False) as parley:
            yield parley, address, settings


async def measure_turns(parley: Parley, until: "asyncio.Task[Any] | None" = None, count: int = 200) -> list[float]:
    """Return the seconds of turns one after another: of so many, or of as many as there is time for."""
    seconds, began = list[float](), time.monotonic()
    while len(seconds) < count if until is None else not until.done():
        # Few messages in each place: a long history would slow the turns, too.
        channel = f"c{began}-{len(seconds) // 20}"
        seconds.append(await seconds_of(parley.ask("hello", channel=channel)))
    return seconds


def tell_turns(name: str, seconds: list[float]) -> None:
    """Print the median and the slowest of these turns."""
    values = (statistics.median(seconds), percentile(tuple(seconds), 99), max(seconds))
    text = " ".join(f"{1000 * value:.1f}" for value in values)
    tell(f"a turn {name}: p50, p99, slowest of {len(seconds)}", f"{text} ms")


def server_seconds(folder: Path) -> float:
    """Return the processor time of the server's processes that run."""
    server = int((folder / "postgres" / "postmaster.pid").read_text().split()[0])
    return sum(cpu_seconds(pid) for pid in list_children(server))


async def measure_processor(parley: Parley, folder: Path) -> None:
    """Print the processor time of Postgres for a turn, which a busy machine changes less than the time it takes."""
    await measure_turns(parley, count=50)
    before = server_seconds(folder)
    seconds = await measure_turns(parley)
    tell("Postgres's processor time for a turn", f"{1000 * (server_seconds(folder) - before) / len(seconds):.2f} ms")
    tell_turns("alone", seconds)


async def measure_removal(parley: Parley, settings: Settings, owner: asyncpg.Connection) -> None:
    """Remove what has expired without pauses, while turns run, then vacuum."""
    names = ("inbox", "outbox", "events", "confirmations", "logs")
    brief = settings.model_copy(update={f"retention_{name}_days": KEPT_DAYS for name in names})
    steps = Steps(parley.app.database, SystemClock(), pause_factor=0)
    removal = asyncio.create_task(seconds_of(remove_expired(steps, brief)))
    tell_turns("beside the removal of a month", await measure_turns(parley, removal))
    tell("the removal of a month, without its pauses", f"{await removal:.1f} s")
    await tell_vacuum(owner, "the removal of a month")


async def measure_erasures(parley: Parley, owner: asyncpg.Connection) -> None:
    """Erase somebody with as many turns as most people, and the one with most of them, then vacuum."""
    rows = await owner.fetch(TURNS_BY_PERSON)
    for row in (rows[len(rows) // 2], rows[0]):
        async with parley.app.database.transaction() as session:
            erasure_id = await request_erasure(session, row["user_id"])
        assert erasure_id is not None
        seconds = await seconds_of(erase(parley.app.database, parley.app.files.storage, erasure_id))
        tell(f"erasing a person with {row['turns']:,} turns", f"{seconds:.2f} s")
    await tell_vacuum(owner, "the erasures")


async def measure(folder: Path, turns: int) -> None:
    """Fill the database and print the figures."""
    async with opened(folder) as (parley, address, settings):
        tell(f"{turns:,} turns written", f"{await seconds_of(fill(address, turns)):.0f} s")
        parley.worker = asyncio.create_task(build_worker(parley.app, maintenance_seconds=10**6).run())
        async with connected(address) as owner:
            await tell_sizes(owner, turns)
            await measure_processor(parley, folder)
            await measure_removal(parley, settings, owner)
            await measure_erasures(parley, owner)


def main() -> None:
    """Parse the options, measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.growth", description=__doc__)
    parser.add_argument("--turns", type=int, default=1_000_000)
    options = parser.parse_args()
    configure_logging("WARNING", "console")
    with tempfile.TemporaryDirectory(prefix="parley-bench-", ignore_cleanup_errors=True) as folder:
        uvloop.run(measure(Path(folder), options.turns))


if __name__ == "__main__":
    main()
