"""A million turns: what expires takes the same room all the time, turns stay fast, and the metrics answer at once."""

import asyncio
import statistics

import pytest
from pydantic import SecretStr

from adapters.cli.worker import build_worker
from agent.queue.maintenance.retention import list_days, make_partitions, remove_expired
from agent.queue.maintenance.steps import Steps
from agent.queue.maintenance.totals import count_finished
from shared.clock import SystemClock
from shared.db.database import Address
from shared.settings import Settings
from tests.adapters.web.conftest import TOKEN, open_site
from tests.standins.openai_api import OpenAIStub
from tests.support.connections import connected
from tests.support.parley import Parley, open_parley
from tests.support.past import write_past

pytestmark = pytest.mark.soak
MONTHS, DAYS, TURNS = 10, 30, 100_000
KEPT_DAYS = 60
# The months in which turns are timed beside the removal at its usual pace; in the others it makes no pauses.
TIMED_MONTHS = (MONTHS - 2, MONTHS - 1)
METRICS_SECONDS = 0.3
# With the partitions of those tables that have some.
SIZE = """
SELECT sum(pg_total_relation_size(relid)) FROM unnest($1::regclass[]) AS name CROSS JOIN LATERAL (
    SELECT relid FROM pg_partition_tree(name) UNION SELECT name
) AS parts
"""


async def size_of_what_expires(address: Address, settings: Settings) -> int:
    """Return the bytes of the tables that are kept short, after the vacuum that the server would do by itself."""
    tables = list(list_days(settings))
    async with connected(address) as owner:
        await owner.execute(f"VACUUM ANALYZE {', '.join(tables)}")
        return int(await owner.fetchval(SIZE, tables))


async def rows_read_by_whole_scans(address: Address) -> int:
    """Return how many rows have been read so far by scans of whole tables."""
    async with connected(address) as owner:
        return int(await owner.fetchval("SELECT sum(seq_tup_read) FROM pg_stat_user_tables"))


def with_retention(settings: Settings, days: int) -> Settings:
    names = ("inbox", "outbox", "events", "confirmations", "logs")
    return settings.model_copy(update={f"retention_{name}_days": days for name in names})


async def seconds_of_turns(
    parley: Parley, clock: SystemClock, until: "asyncio.Task[object] | None" = None
) -> list[float]:
    """Return how long turns take one after another: fifty, or as many as there is time for."""
    durations: list[float] = []
    while len(durations) < 50 if until is None else not until.done():
        began = clock.monotonic()
        # Few messages in each place: a long history would slow the turns, too.
        await parley.ask("hello", channel=f"c{len(durations) // 20}-{began}")
        durations.append(clock.monotonic() - began)
    return durations


async def seconds_beside_removal(parley: Parley, clock: SystemClock, settings: Settings) -> list[float]:
    """Return how long turns take while what has expired is removed at its usual pace."""
    async with asyncio.TaskGroup() as tasks:
        removal = tasks.create_task(remove_expired(Steps(parley.app.database, clock), settings))
        return await seconds_of_turns(parley, clock, until=removal)


async def test_a_million_turns_leave_the_working_set_as_it_was(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    clock, sizes, row_counts, alone, beside = SystemClock(), [], [], [], []
    free = settings.model_copy(update={"default_guest_token_budget": 10**9, "api_token": SecretStr(TOKEN), "port": 0})
    async with open_parley(free, address, model, works=False) as parley:
        # The maintenance of this worker would have the days of today.
        steps = Steps(parley.app.database, clock, pause_factor=0)
        parley.worker = asyncio.create_task(build_worker(parley.app, maintenance_seconds=10**6).run())
        for month in range(MONTHS):
            # The months that are still to come lie between the written rows and now.
            ahead = (MONTHS - month - 1) * DAYS
            await write_past(address, turns=TURNS, days=DAYS, until=ahead)
            await count_finished(steps)
            await make_partitions(steps, settings)
            if month not in TIMED_MONTHS:
                row_counts.append(-await rows_read_by_whole_scans(address))
                await remove_expired(steps, with_retention(settings, KEPT_DAYS + ahead))
                row_counts[-1] += await rows_read_by_whole_scans(address)
            else:
                alone += await seconds_of_turns(parley, clock)
                beside += await seconds_beside_removal(parley, clock, with_retention(settings, KEPT_DAYS + ahead))
            sizes.append(await size_of_what_expires(address, settings))
        # As maintenance does each minute: the metrics add what it has not counted yet.
        await count_finished(steps)
        async with open_site(parley) as site:
            answers = [await site.client.get("/metrics") for _ in range(5)]

    megabytes, medians = [f"{size / 1e6:.0f}" for size in sizes], [*map(statistics.median, (alone, beside))]
    metrics = min(answer.elapsed.total_seconds() for answer in answers)
    print("MB by month, rows of whole scans, s of turns alone and beside:", megabytes, row_counts, medians)  # noqa: T201
    settled = sizes[KEPT_DAYS // DAYS + 1 :]
    # The files of a table shrink only at their end, so that sizes vary; rows that nothing removes would triple them.
    assert max(settled) < 1.5 * settled[0], megabytes
    # A single scan of `turns` would be more than this from the third month on, when there is something to remove.
    # What is read of a partition before it is dropped is forgotten with it.
    assert max(row_counts) < 3 * TURNS, row_counts
    assert medians[1] < 2 * medians[0]
    assert metrics <= METRICS_SECONDS, metrics
    assert 'parley_turns_total{status="answered"} ' in answers[0].text
