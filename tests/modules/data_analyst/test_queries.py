"""Questions to one source: aggregates, SQL, and what neither may do."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from modules import data_analyst
from shared.db.database import Database
from shared.errors import ToolError
from shared.files.storage import Storage
from shared.files.stores.folder import FolderStore
from shared.tools import ToolContext
from tests.modules.data_analyst.conftest import AddSource, Shop
from tests.support.taken_parsers import TakenFiles
from tests.support.tool_calls import call


async def ask(context: ToolContext, source: str, **arguments: Any) -> list[list[Any]]:
    rows: list[list[Any]] = (await call(data_analyst.query_source, context, source=source, **arguments))["rows"]
    return rows


@pytest.mark.usefixtures("sources")
async def test_a_measure_is_aggregated_by_dimensions_alike_in_both_engines(context: ToolContext) -> None:
    by_region = await call(
        data_analyst.query_source, context, source="orders", measure="amount", dimensions=["region"], limit=2
    )
    assert by_region == {
        "source": "orders",
        "columns": ["region", "sum_amount"],
        "rows": [["ASIA", 1000], ["EU", 300.3]],
        "row_count": 2,
        "truncated": True,
    }
    for source, counted, largest in (("orders", 6, 1000), ("ledger", 5, 1100)):
        assert await ask(context, source) == [[counted]]
        assert await ask(context, source, measure="MAX( Amount )") == [[largest]]
        assert await ask(context, source, measure="amount", filters={"region": None}) == [[7.5]]
        assert await ask(context, source, filters={"region": ["EU", "US"], "day": {"<": "2026-01-02"}}) == [[2]]
        assert await ask(context, source, filters={"region": {"contains": "si"}}) == [[1]]
        assert await ask(context, source, filters={"amount": {">": 50, "<=": 100.5, "!=": 7}}) in ([[1]], [[2]])
        assert await ask(context, source, filters={"region": []}) == [[0]]


@pytest.mark.usefixtures("sources")
async def test_sql_is_a_single_select_in_both_engines(context: ToolContext) -> None:
    for source, rows in (("orders", 6), ("ledger", 5)):
        query = f"WITH eu AS (SELECT * FROM {source} WHERE region = 'EU') SELECT sum(amount) AS total FROM eu;"
        assert await ask(context, source, sql=f"SELECT count(*) FROM {source} -- all") == [[rows]]
        assert await ask(context, source, sql=query) == [[300.3]]
        two = f"SELECT 1; DROP TABLE {source}"
        for wrong in (
            two,
            f"DELETE FROM {source}",
            "CREATE TABLE x AS SELECT 1",
            "SET TimeZone = 'UTC'",
            "",
            "SELECT",
        ):
            with pytest.raises(ToolError, match=r"refused that|Give one"):
                await ask(context, source, sql=wrong)
        assert await ask(context, source) == [[rows]]


async def test_sql_changes_nothing_in_postgres_even_where_the_login_could(
    context: ToolContext, shop: Shop, add_source: AddSource
) -> None:
    await add_source("orders", kind="postgres", url=shop.url, relation="orders")
    await shop.owner.execute("CREATE SEQUENCE numbers")
    await shop.owner.execute(f"GRANT ALL ON SEQUENCE numbers TO {shop.reader}")
    for wrong in (
        "SELECT nextval('numbers')",
        "WITH gone AS (DELETE FROM orders RETURNING 1) SELECT * FROM gone",
        "SELECT set_config('transaction_read_only', 'off', false), nextval('numbers')",
        "SELECT 1) AS found(c0); DELETE FROM orders; --",
        "SELECT * FROM secrets",
        "SELECT pg_read_file('/etc/passwd')",
        "COPY orders TO STDOUT",
        "EXPLAIN ANALYZE SELECT 1",
    ):
        with pytest.raises(ToolError):
            await ask(context, "orders", sql=wrong)
    assert await shop.owner.fetchval("SELECT count(*) FROM orders") == 6
    assert await shop.owner.fetchval("SELECT is_called FROM numbers") is False


@pytest.mark.usefixtures("sources")
async def test_sql_on_a_file_reads_no_other_file_and_reaches_no_network(context: ToolContext, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("secret\n42\n")
    for wrong in (
        f"SELECT * FROM '{other}'",
        f"SELECT * FROM read_text('{other}')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM 'http://127.0.0.1:9/data.parquet'",
        "SELECT * FROM postgres_scan('', '', '')",
        f"COPY ledger TO '{tmp_path}/copy.csv'",
        f"ATTACH '{tmp_path}/new.db'",
        "INSTALL httpfs",
        "SELECT getenv('HOME')",
    ):
        with pytest.raises(ToolError, match="refused that"):
            await ask(context, "ledger", sql=wrong)
    assert sorted(path.name for path in tmp_path.glob("*.*")) == ["ledger.csv", "other.csv"]  # noqa: ASYNC240  # local


@pytest.mark.usefixtures("sources")
async def test_names_and_values_are_never_read_as_sql(context: ToolContext, shop: Shop) -> None:
    evil = "x'); DROP TABLE orders; --"
    assert await ask(context, "orders", filters={"region": evil}) == [[0]]
    assert await ask(context, "orders", filters={"region": {"contains": evil}}) == [[0]]
    assert await ask(context, "ledger", filters={"region": evil}) == [[0]]
    assert (await ask(context, "orders", dimensions=['odd "name'], limit=1))[0][0] == "a"
    for arguments in ({"dimensions": [evil]}, {"measure": f"sum({evil})"}, {"filters": {evil: 1}}):
        with pytest.raises(ToolError, match="There is no column") as caught:
            await ask(context, "orders", **arguments)
        assert "region" in caught.value.fields["available_columns"]
    with pytest.raises(ToolError, match="invalid input syntax for type date"):
        await ask(context, "orders", filters={"day": evil})
    with pytest.raises(ToolError, match="region is text and not a number") as caught:
        await ask(context, "orders", measure="avg(region)")
    assert caught.value.fields == {"number_columns": ["id", "amount"]}
    assert await shop.owner.fetchval("SELECT count(*) FROM orders") == 6


@pytest.mark.usefixtures("sources")
async def test_results_are_bounded_in_rows_and_in_the_length_of_values(context: ToolContext) -> None:
    many = await call(
        data_analyst.query_source, context, source="orders", sql="SELECT generate_series(1, 1000000)", limit=10**9
    )
    assert (many["row_count"], many["truncated"]) == (200, True)
    for source in ("orders", "ledger"):
        ((long,),) = await ask(context, source, sql="SELECT repeat('x', 10000000)")
        assert len(long) == 500
        with pytest.raises(ToolError, match="100 columns"):
            await ask(context, source, sql=f"SELECT {', '.join(map(str, range(101)))}")


async def test_a_query_that_takes_too_long_is_ended(context: ToolContext, shop: Shop, add_source: AddSource) -> None:
    await add_source("orders", kind="postgres", url=shop.url, relation="orders")
    os.environ["DATA_ANALYST_TIMEOUT_SECONDS"] = "1"
    try:
        with pytest.raises(ToolError, match=r"longer than 1 s|statement timeout"):
            await ask(context, "orders", sql="SELECT pg_sleep(600)")
    finally:
        del os.environ["DATA_ANALYST_TIMEOUT_SECONDS"]

    async def is_gone() -> bool:
        query = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1"
        return bool(await shop.owner.fetchval(query, shop.reader) == 0)

    async with asyncio.timeout(20):
        while not await is_gone():  # noqa: ASYNC110  # the server notifies nobody
            await asyncio.sleep(0.05)


async def test_a_source_may_take_no_sql(context: ToolContext, add_source: AddSource, tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("word\tnumber\none\t1\n")
    await add_source("closed", kind="file", path=str(path), allow_sql=False)

    assert await ask(context, "closed", measure="number", dimensions=["word"]) == [["one", 1]]
    assert (await call(data_analyst.describe_source, context, source="closed"))["name_in_sql"] is None
    with pytest.raises(ToolError, match="takes no SQL"):
        await ask(context, "closed", sql="SELECT 1")


async def test_values_of_all_types_have_a_json_form(context: ToolContext, shop: Shop, add_source: AddSource) -> None:
    await add_source("orders", kind="postgres", url=shop.url, relation="orders")
    query = """SELECT 1.50::numeric, 12345678901234567890.12::numeric, 'NaN'::float8, 'Infinity'::numeric, true, NULL,
        '2026-01-01'::date, 'infinity'::timestamptz, '{1,2}'::int[], '\\x00ff'::bytea, '1 day'::interval,
        '{"a": 1}'::jsonb, int4range(1, 5), 0.1::float4::float8, '4714-11-24 BC'::date"""
    ((*values,),) = await ask(context, "orders", sql=query)

    assert values[:6] == [1.5, "12345678901234567890.12", "nan", "Infinity", True, None]
    assert values[6:13] == ["2026-01-01", "infinity", "{1,2}", "\\x00ff", "1 day", '{"a": 1}', "[1,5)"]


async def test_decimals_of_a_csv_are_summed_exactly(
    context: ToolContext, add_source: AddSource, tmp_path: Path
) -> None:
    path = tmp_path / "cents.csv"
    path.write_text("amount\n" + "0.1\n" * 1000 + "123456789012.01\n")
    await add_source("cents", kind="file", path=str(path))

    assert await ask(context, "cents", measure="amount") == [[123456789112.01]]


LARGE = "SELECT sum(hash(a.range)) FROM range(10000000) AS a"


@pytest.mark.usefixtures("sources")
async def test_many_heavy_questions_of_one_person_hold_up_nobody_else(
    context: ToolContext, database: Database, tmp_path: Path
) -> None:
    storage = Storage(FolderStore(tmp_path / "files"), "http://here", ("secret",))
    one, other = (
        replace(context, user=replace(context.user, id=user_id), storage=storage.of_user(database, user_id, None))
        for user_id in (context.user.id, context.user.id + 1)
    )
    names: list[str] = []

    async def asks(person: ToolContext, sql: str, name: str) -> None:
        await ask(person, "ledger", sql=sql)
        names.append(name)

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(asks(one, LARGE, f"heavy {number}"))
        await asyncio.sleep(0)
        group.create_task(asks(other, "SELECT count(*) FROM ledger", "other"))

    assert "other" in names[:3]


TEXTS = {
    "cp1252": "Ort;Betrag\nKöln;12\n„Großstadt“: 5 €;7\n",
    "utf-16": "Ort;Betrag\nKöln;12\nŁódź;7\n",
    "cp1251": "Город;Сумма\nПетербург;12\nСмоленск;7\n",  # noqa: RUF001
    "utf-8-sig": "Ort;Betrag\nKöln;12\nŁódź;7\n",
}


@pytest.mark.parametrize("encoding", TEXTS)
async def test_a_csv_file_is_read_in_the_encoding_that_it_has(
    context: ToolContext, add_source: AddSource, tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "orte.csv"
    path.write_bytes(TEXTS[encoding].encode(encoding))
    await add_source("orte", kind="file", path=str(path))
    place, amount = TEXTS[encoding].partition("\n")[0].split(";")

    rows = await ask(context, "orte", measure=amount, dimensions=[place])

    pairs = [line.split(";") for line in TEXTS[encoding].splitlines()[1:]]
    assert rows == [[name, int(value)] for name, value in pairs]


async def test_an_encoding_is_found_where_most_of_a_file_is_plain(
    context: ToolContext, add_source: AddSource, tmp_path: Path
) -> None:
    path = tmp_path / "late.csv"
    path.write_bytes(("place,amount\n" + "Rome,1\n" * 300_000 + "Köln,5\n").encode("cp1252"))
    await add_source("late", kind="file", path=str(path))

    rows = await ask(context, "late", measure="amount", filters={"place": "Köln"})

    assert rows == [[5]]


@pytest.mark.usefixtures("sources")
async def test_an_engine_that_a_file_has_taken_over_answers_nothing_that_takes_memory_without_end(
    context: ToolContext,
) -> None:
    for number, value in (("1e99999999", "1E+99999999"), ("1e308", "1" + "0" * 308)):
        file_storage = TakenFiles(json.dumps({"columns": ["n"], "numbers": [True], "rows": [[number]]}).encode())
        assert await ask(replace(context, storage=file_storage), "ledger", sql="SELECT 1") == [[value]]
    for wrong in (b"", b"[" * 100_000):
        with pytest.raises(ToolError, match="could not do that"):
            await ask(replace(context, storage=TakenFiles(wrong)), "ledger", sql="SELECT 1")
