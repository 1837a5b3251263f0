"""A comparison of two sources with a million keys each."""

import resource
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from modules import data_analyst
from shared.db.database import Database
from shared.messages import Permission
from tests.modules.data_analyst.conftest import AddSource, Shop
from tests.support.tool_calls import call
from tests.support.tool_context import make_tool_context

ROWS = 1_000_000
MOST_SECONDS, MOST_KILOBYTES = 10, 500 * 1024
MAKE = (
    "CREATE TABLE {0} AS SELECT 'customer-' || n AS customer, n * 1.01 AS amount FROM generate_series({1}, {2}) AS n;"
)

pytestmark = pytest.mark.soak
pytest_plugins = ("tests.modules.data_analyst.conftest",)


async def test_two_million_rows_are_compared_in_ten_seconds_and_500_megabytes(
    database: Database, shop: Shop, add_source: AddSource, tmp_path: Path
) -> None:
    await shop.owner.execute(MAKE.format("a", 1, ROWS) + MAKE.format("b", 2, ROWS + 1))
    await shop.owner.execute(
        f"UPDATE b SET amount = amount * 1.005 WHERE amount < 1000; ANALYZE; GRANT SELECT ON a, b TO {shop.reader}"  # noqa: S608
    )
    for name in ("a", "b"):
        await add_source(name, kind="postgres", url=shop.url, relation=name)
    arguments: dict[str, Any] = {"source_a": "a", "source_b": "b", "measure": "amount", "keys": ["customer"]}

    context = await make_tool_context(database, tmp_path / "files", "data_analyst", Permission.ADMIN)
    began, before = perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    summary = (await call(data_analyst.compare_sources, context, **arguments))["summary"]
    seconds = perf_counter() - began

    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"{seconds:.1f} s, {children / 1024:.0f} MB in DuckDB's process, {own / 1024:.0f} MB more in our own")  # noqa: T201
    assert (summary["total_rows"], summary["only_in_a"], summary["only_in_b"]) == (ROWS + 1, 1, 1)
    assert summary["minor_differences"] == 989
    assert seconds < MOST_SECONDS
    assert children + own < MOST_KILOBYTES
