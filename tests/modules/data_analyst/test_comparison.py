"""Comparisons of two sources, each computed in its own engine and joined by decimals."""

import csv
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from modules import data_analyst
from modules.data_analyst.comparison import STATUSES, Comparison, compare
from modules.data_analyst.duckdb_engine import FileSource
from modules.data_analyst.settings import AnalystSettings
from shared.errors import ToolError
from shared.tools import ToolContext
from tests.modules.data_analyst.conftest import AddSource, Shop
from tests.standins.openai_api import Answer
from tests.support.parley import Parley
from tests.support.tool_calls import call

ASKED: dict[str, Any] = {"source_a": "orders", "source_b": "ledger", "measure": "amount", "keys": ["region"]}


@pytest.mark.usefixtures("sources")
async def test_rows_are_aligned_by_key_and_each_has_its_status(context: ToolContext) -> None:
    comparison = await call(data_analyst.compare_sources, context, **ASKED)

    assert comparison["summary"] == {
        "total_rows": 6,
        "matches": 2,
        "minor_differences": 1,
        "major_differences": 1,
        "only_in_a": 1,
        "only_in_b": 1,
        "total_source_a": 1367.8,
        "total_source_b": 1470.45,
        "total_diff": -102.65,
    }
    assert [tuple(difference.values()) for difference in comparison["top_differences"]] == [
        ({"region": "ASIA"}, 1000, 1100, 100, 10, "major_diff"),
        ({"region": "OCEANIA"}, None, 12.25, 12.25, None, "only_in_b"),
        ({"region": "AFRICA"}, 10, None, 10, None, "only_in_a"),
        ({"region": "US"}, 50, 50.4, 0.4, 0.8, "minor_diff"),
    ]
    assert list(comparison["top_differences"][0]) == [
        "key", "source_a_value", "source_b_value", "absolute_diff", "percentage_diff", "status"
    ]  # fmt: skip
    assert comparison["interpretation"] == (
        "Of 6 keys 2 agree (33.3%); 1 differ slightly, 1 differ much, 1 are only in A, 1 are only in B. "
        "The total of B is larger by 102.65 (7.50% of A's)."
    )


@pytest.mark.usefixtures("sources")
async def test_without_keys_the_shared_columns_that_are_no_measures_are_compared(context: ToolContext) -> None:
    arguments = {name: value for name, value in ASKED.items() if name != "keys"}

    comparison = await call(data_analyst.compare_sources, context, **arguments)

    assert comparison["keys"] == ["region", "day"]
    assert comparison["summary"]["total_rows"] == 7
    assert comparison["interpretation"].startswith("Of 7 keys 1 agree (14.2%); ")


@pytest.mark.parametrize(
    ("a", "b", "keys"),
    [
        ("Year,amount\n2025,1\n2026,2\n", "year,amount\n2025,1\n2026,2\n", ["Year"]),
        ("year,city,amount\n2025,Rome,1\n", "city,amount,year\nRome,1,2025\n", ["city"]),
        ("rate,amount\n0.5,1\n", "rate,amount\n0.5,1\n", None),
    ],
)
async def test_keys_are_words_and_dates_else_whole_numbers_and_else_have_to_be_named(
    context: ToolContext, add_source: AddSource, tmp_path: Path, a: str, b: str, keys: list[str] | None
) -> None:
    for name, content in (("one", a), ("two", b)):
        (tmp_path / f"{name}.csv").write_text(content)
        await add_source(name, kind="file", path=str(tmp_path / f"{name}.csv"))
    arguments = {"source_a": "one", "source_b": "two", "measure": "amount"}

    if keys is None:
        with pytest.raises(ToolError, match="share no column"):
            await call(data_analyst.compare_sources, context, **arguments)
        return
    comparison = await call(data_analyst.compare_sources, context, **arguments)

    assert comparison["keys"] == keys
    assert "(100%)" in comparison["interpretation"]


@pytest.mark.usefixtures("sources")
async def test_tolerance_threshold_filters_and_keys_are_the_askers(context: ToolContext) -> None:
    async def summary(**arguments: Any) -> Mapping[str, Any]:
        totals: dict[str, Any] = (await call(data_analyst.compare_sources, context, **{**ASKED, **arguments}))[
            "summary"
        ]
        return totals

    assert (await summary(tolerance=0.4))["matches"] == 3
    assert (await summary(tolerance=0.39))["matches"] == 2
    assert (await summary(major_threshold_pct=10))["minor_differences"] == 2
    assert (await summary(major_threshold_pct=0.79))["minor_differences"] == 0
    assert (await summary(filters={"region": ["EU", "US"]}))["total_rows"] == 2
    by_day = await call(data_analyst.compare_sources, context, **{**ASKED, "keys": ["region", "day"]}, top=1)
    assert by_day["top_differences"][0]["key"] == {"region": "EU", "day": "2026-01-01"}
    same = await call(data_analyst.compare_sources, context, **{**ASKED, "source_b": "orders"})
    assert same["interpretation"] == "The sources agree on all 5 keys (100%)."
    apart = await call(data_analyst.compare_sources, context, **{**ASKED, "filters": {"region": ["AFRICA", "OCEANIA"]}})
    assert apart["interpretation"].startswith("No key is in both sources.")


@pytest.mark.usefixtures("sources")
async def test_what_does_not_fit_is_named(context: ToolContext) -> None:
    for wrong, field in (
        ({"source_b": "leger"}, "available_sources"),
        ({"keys": ["country"]}, "available_columns"),
        ({"measure": "day"}, "number_columns"),
    ):
        with pytest.raises(ToolError) as caught:
            await call(data_analyst.compare_sources, context, **{**ASKED, **wrong})
        assert caught.value.fields[field]
    with pytest.raises(ToolError, match="not valid"):
        await call(data_analyst.compare_sources, context, **{**ASKED, "keys": []})


async def test_numbers_and_dates_as_keys_read_alike_in_both_engines(
    context: ToolContext, shop: Shop, add_source: AddSource, tmp_path: Path
) -> None:
    await shop.owner.execute(
        "CREATE TABLE a (code numeric(8, 3), at timestamp, ok bool, word char(5), v float8);"
        "INSERT INTO a VALUES (1.50, '2026-01-01 10:00', true, 'x', 0.1), (1000, '2026-01-02', false, '', 0.2);"
        f"GRANT SELECT ON a TO {shop.reader}"
    )
    path = tmp_path / "b.csv"
    path.write_text('code,at,ok,word,v\n1.5,2026-01-01 10:00:00,true,x,0.1\n1000.0,2026-01-02 00:00:00,false,"",0.2\n')
    await add_source("a", kind="postgres", url=shop.url, relation="a")
    await add_source("b", kind="file", path=str(path))
    keys = ["code", "at", "ok"]

    comparison = await call(data_analyst.compare_sources, context, source_a="a", source_b="b", measure="v", keys=keys)

    assert comparison["summary"]["matches"] == 2, comparison
    assert comparison["summary"]["total_diff"] == 0


AMOUNTS = st.dictionaries(
    st.sampled_from(["a", "b", "c c", 'd"', "ü"]), st.decimals(-1000, 1000, places=3), min_size=1, max_size=5
)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(a=AMOUNTS, b=AMOUNTS, tolerance=st.decimals(0, 5, places=2), threshold=st.decimals(0, 50, places=2))
async def test_a_comparison_equals_the_same_in_plain_decimals(
    context: ToolContext,
    tmp_path: Path,
    a: dict[str, Decimal],
    b: dict[str, Decimal],
    tolerance: Decimal,
    threshold: Decimal,
) -> None:
    sources = []
    for name, amounts in (("a", a), ("b", b)):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("k", "v"), *amounts.items()])
        sources.append(FileSource(name, str(tmp_path / f"{name}.csv"), AnalystSettings(), context.storage))
    limits = {"tolerance": tolerance, "major_threshold_pct": threshold}
    request = Comparison("v", ["k"], {}, **limits, top=10)

    comparison = await compare(context.storage, (sources[0], sources[1]), request, settings=AnalystSettings())

    statuses = {key: expected_status(a.get(key), b.get(key), tolerance, threshold) for key in a.keys() | b.keys()}
    assert {difference["key"]["k"]: difference["status"] for difference in comparison["top_differences"]} == {
        key: status for key, status in statuses.items() if status != "match"
    }
    assert Decimal(str(comparison["summary"]["total_diff"])) == sum(a.values()) - sum(b.values())
    assert set(statuses.values()) <= set(STATUSES)


def expected_status(a: Decimal | None, b: Decimal | None, tolerance: Decimal, threshold: Decimal) -> str:
    if a is None or b is None:
        return "only_in_b" if a is None else "only_in_a"
    if abs(a - b) <= tolerance:
        return "match"
    return "minor_diff" if abs(a - b) * 100 <= abs(a) * threshold else "major_diff"


async def test_many_rows_of_a_table_and_a_file_are_compared(
    context: ToolContext, shop: Shop, add_source: AddSource, tmp_path: Path
) -> None:
    rows = 100_000
    await shop.owner.execute(
        f"CREATE TABLE many AS SELECT n AS key, n * 1.01 AS amount FROM generate_series(1, {rows}) AS n;"
        f"GRANT SELECT ON many TO {shop.reader}"
    )
    path = tmp_path / "many.csv"
    with path.open("w") as file:
        file.write("key,amount\n")
        file.writelines(f"{n},{n * 101 // 100}.{n * 101 % 100:02}\n" for n in range(2, rows + 2))
    await add_source("many", kind="postgres", url=shop.url, relation="many")
    await add_source("copy", kind="file", path=str(path))

    arguments = {"source_a": "many", "source_b": "copy", "measure": "amount", "keys": ["key"]}
    summary = (await call(data_analyst.compare_sources, context, **arguments))["summary"]

    assert (summary["matches"], summary["only_in_a"], summary["only_in_b"]) == (rows - 1, 1, 1)


@pytest.mark.usefixtures("sources")
async def test_a_chart_is_a_png_among_the_persons_files(context: ToolContext, tmp_path: Path) -> None:
    for kind, source in (("bar", "orders"), ("line", "orders"), ("pie", "ledger")):
        chart = await call(
            data_analyst.chart,
            context,
            source=source,
            measure="amount",
            dimension="region",
            kind=kind,
            title="$a$ ü日本",
        )
        _, content = await context.storage.read(chart["file_id"])
        (tmp_path / "chart.png").write_bytes(content)
        with Image.open(tmp_path / "chart.png") as image:
            assert image.format == "PNG"
            assert image.size == (1080, 600)
        assert chart["url"].startswith("http://here/files/")
    with pytest.raises(ToolError, match="no rows"):
        await call(data_analyst.chart, context, source="orders", dimension="region", filters={"region": "MOON"})


@pytest.mark.usefixtures("sources")
async def test_a_model_tries_three_wrong_names_and_still_gets_its_answer_and_a_picture(parley: Parley) -> None:
    parley.model.play([Answer("Hello.")])
    await parley.ask("Hello")
    await parley.sql("UPDATE users SET permission_level = 'admin', token_budget_monthly = NULL")
    names = ("ledgers", "the_ledger", "accounts", "ledger")
    calls = [("data_analyst__compare_sources", {**ASKED, "source_b": name}) for name in names]
    chart_call = ("data_analyst__chart", {"source": "orders", "measure": "amount", "dimension": "region"})
    parley.model.play(
        [*(Answer(tool_calls=[call]) for call in calls), Answer(tool_calls=[chart_call]), Answer("B has 102.65 more.")]
    )

    reply = await parley.ask("Compare orders and ledger, and draw orders")

    results = [call.result for call in reply.tool_calls_made]
    assert [result["available_sources"] for result in results[:3]] == [["ledger", "orders"]] * 3
    assert results[3]["summary"]["total_diff"] == -102.65
    assert reply.content.startswith("B has 102.65 more.")
    assert [file.mime_type for file in reply.files] == ["image/png"]
