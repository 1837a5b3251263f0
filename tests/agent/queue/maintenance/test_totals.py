"""Totals count each finished turn and each model call once, and the metrics stay the same."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import text

from agent.queue.maintenance.steps import Steps
from agent.queue.maintenance.totals import count_finished, read_call_totals, read_turn_totals
from shared.clock import SystemClock
from shared.db.database import Address
from tests.support.connections import run_as_owner
from tests.support.parley import Parley
from tests.support.past import write_past

SCANS = """
SELECT relname FROM pg_stat_xact_user_tables WHERE relname IN ('turns', 'token_logs') AND seq_scan > 0
"""


@pytest.fixture
def address(new_address: Address) -> Address:
    """A database whose statistics tell of one test alone."""
    return new_address


def steps_of(parley: Parley) -> Steps:
    return Steps(parley.app.database, SystemClock(), pause_factor=0)


async def totals(parley: Parley) -> tuple[list[Any], list[Any]]:
    async with parley.app.database.transaction() as session:
        turns = await read_turn_totals(session)
        calls = await read_call_totals(session)
    return sorted(map(tuple, turns)), sorted(map(tuple, calls))


async def counted(parley: Parley) -> dict[str, int]:
    return {row.table_name: row.last_id for row in await parley.sql("SELECT table_name, last_id FROM counted_rows")}


async def test_counting_changes_no_total_and_processes_that_count_at_once_count_once(
    parley: Parley, address: Address
) -> None:
    await write_past(address, turns=12_000, days=10)
    before = await totals(parley)

    await asyncio.gather(*(count_finished(steps_of(parley)) for _ in range(5)))

    assert await totals(parley) == before
    assert before[0] == [
        ("native", "failed", 240, 480, 240, 480),
        ("native", "finished", 11_760, 23_520, 11_760, 23_520),
    ]
    assert before[1] == [("openai/stub", "answer", 24_000, 2_400_000, 0, 240_000, 24, 0)]
    # What one of them held, the others left to the next time.
    await count_finished(steps_of(parley))
    assert await parley.value("SELECT sum(turns) FROM turn_totals") > 11_990
    assert await totals(parley) == before


async def test_a_row_behind_which_another_could_still_appear_is_not_counted(parley: Parley, address: Address) -> None:
    await write_past(address, turns=10, days=1)
    await parley.ask("hello")
    await parley.sql("UPDATE turns SET status = 'running', finished_at = NULL WHERE id = 5")
    await parley.sql("UPDATE token_logs SET created_at = now() WHERE id = 7")

    await count_finished(steps_of(parley))

    assert await counted(parley) == {"turns": 4, "token_logs": 6, "messages": 18}
    await parley.sql("UPDATE turns SET started_at = now() - interval '2 days' WHERE id = 5")
    await parley.sql("UPDATE token_logs SET created_at = now() - interval '2 days' WHERE id = 7")
    await count_finished(steps_of(parley))
    assert (await counted(parley))["turns"] == 9


async def test_the_totals_outlive_the_rows(parley: Parley, address: Address) -> None:
    await write_past(address, turns=1000, days=10)
    await count_finished(steps_of(parley))
    before = await totals(parley)

    await parley.sql("DELETE FROM token_logs WHERE created_at < now() - interval '1 day'")

    assert await totals(parley) == before


async def test_the_metrics_read_only_what_is_not_counted_yet(parley: Parley, address: Address) -> None:
    await write_past(address, turns=20_000, days=100)
    await count_finished(steps_of(parley))
    await run_as_owner(address, "ANALYZE")

    async with parley.app.database.transaction() as session:
        await read_turn_totals(session)
        await read_call_totals(session)
        assert (await session.execute(text(SCANS))).all() == []
