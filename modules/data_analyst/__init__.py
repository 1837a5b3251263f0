"""Tools that ask named data sources: tables in Postgres, CSV and Parquet files. They change nothing."""

from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field

from modules.data_analyst.charts import Kind, draw
from modules.data_analyst.comparison import Comparison, compare
from modules.data_analyst.queries import (
    Filters,
    Names,
    Query,
    build_aggregate,
    build_example,
    read_measure,
)
from modules.data_analyst.settings import AnalystSettings
from modules.data_analyst.sources import Engine, get_source, list_sources_for, open_engine
from modules.data_analyst.tables import Rows
from shared.errors import ToolError
from shared.messages import Permission
from shared.tools import ToolContext, tool

EXAMPLE_ROWS = 3
MAX_SHOWN_COLUMNS = 100
MAX_POINTS = 50
# A connection, the query in each engine and the join have the time-out of their own.
SECONDS = 600

# Options of the tools that read what is in a source.
READS: dict[str, Any] = {
    "requires": Permission.USER,
    "read_only": True,
    "repeatable": True,
    "timeout_seconds": SECONDS,
    "reads_untrusted": True,
    "reads_private": True,
}

Name = Annotated[str, Field(max_length=200)]
Sql = Annotated[str, Field(max_length=20_000)]
Share = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]


@tool(
    requires=Permission.USER,
    read_only=True,
    repeatable=True,
    reads_private=True,
    words=("Listing the data sources", "Listed the data sources"),
)
async def list_sources(context: ToolContext) -> dict[str, Any]:
    """List the data sources that the person may ask.

    Example: {} -> "name": "orders"
    """
    sources = [
        {"name": source.name, "description": source.description, "kind": source.kind}
        for source in await list_sources_for(context)
    ]
    return {"sources": sources}


@tool(**READS, words=("Looking at the source {source}", "Looked at the source {source}"))
async def describe_source(context: ToolContext, source: Name) -> dict[str, Any]:
    """Get a source's columns, its name in SQL, and example rows.

    Example: {"source": "orders"} -> region
    """
    source_row = await get_source(context, source)
    engine = open_engine(context, source_row)
    relation = await engine.describe()
    examples = await engine.fetch(build_example(relation), EXAMPLE_ROWS)
    return {
        "name": source_row.name,
        "description": source_row.description,
        "kind": source_row.kind,
        "name_in_sql": relation.name if source_row.allow_sql else None,
        "columns": [{"name": column.name, "type": column.type} for column in relation.columns[:MAX_SHOWN_COLUMNS]],
        "example_rows": [list(row) for row in examples.rows],
    }


@tool(**READS, words=("Querying {source}", "Queried {source}"))
async def query_source(
    context: ToolContext,
    source: Name,
    measure: Name = "count",
    dimensions: Names | None = None,
    filters: Filters | None = None,
    sql: Sql | None = None,
    limit: Annotated[int, Field(ge=1)] = 50,
) -> dict[str, Any]:
    """Aggregate a source, or give one SELECT as `sql`.

    measure: amount, avg(amount), count; filters: {"region": "EU", "year": {">=": 2025}}.

    Example: {"source": "orders", "measure": "amount", "dimensions": ["region"]} -> "EU"
    """
    source_row = await get_source(context, source)
    if sql is not None and not source_row.allow_sql:
        raise ToolError(f"{source_row.name} takes no SQL; give measure, dimensions and filters.")
    engine = open_engine(context, source_row)
    rows_at_most = min(limit, context.settings(AnalystSettings).row_limit)
    if sql is not None:
        rows = await engine.fetch(Query(sql), rows_at_most)
    else:
        rows = await _aggregate(engine, measure, (dimensions or [], filters or {}), limit=rows_at_most)
    return {"source": source_row.name, **rows.to_result()}


@tool(**READS, words=("Comparing {source_a} with {source_b}", "Compared {source_a} with {source_b}"))
async def compare_sources(
    context: ToolContext,
    source_a: Name,
    source_b: Name,
    measure: Name,
    keys: Annotated[Names, Field(min_length=1)] | None = None,
    filters: Filters | None = None,
    tolerance: Amount = 0,
    major_threshold_pct: Share = 1.0,
    top: Annotated[int, Field(ge=1, le=100)] = 10,
) -> dict[str, Any]:
    """Compare a measure of two sources by keys, else shared dimensions. `tolerance` apart is a match, threshold minor.

    Example: {"source_a": "orders", "source_b": "ledger", "measure": "amount", "keys": ["region"]} -> "matches": 1
    """
    sources = [await get_source(context, name) for name in (source_a, source_b)]
    a, b = (open_engine(context, source) for source in sources)
    limits = {"tolerance": Decimal(str(tolerance)), "major_threshold_pct": Decimal(str(major_threshold_pct))}
    comparison = Comparison(measure, keys, filters=filters or {}, **limits, top=top)
    answer = await compare(context.storage, (a, b), comparison, settings=context.settings(AnalystSettings))
    return {"source_a": sources[0].name, "source_b": sources[1].name, **answer}


# `acts=False`: the picture is shown only to the person, like an answer.
@tool(
    requires=Permission.USER,
    acts=False,
    timeout_seconds=SECONDS,
    reads_untrusted=True,
    reads_private=True,
    words=("Drawing a chart of {source}", "Drew a chart of {source}"),
)
async def chart(
    context: ToolContext,
    source: Name,
    dimension: Name,
    measure: Name = "count",
    kind: Kind = "bar",
    filters: Filters | None = None,
    title: Name = "",
) -> dict[str, Any]:
    """Draw a measure by a dimension; the picture comes with the reply.

    Example: {"source": "orders", "dimension": "region", "measure": "amount"} -> orders.png
    """
    source_row = await get_source(context, source)
    rows = await _aggregate(open_engine(context, source_row), measure, ([dimension], filters or {}), limit=MAX_POINTS)
    image = await draw(
        context.storage, rows, kind, title=title or f"{source_row.name}: {rows.columns[-1]} by {dimension}"
    )
    file = await context.storage.create(f"{title or source_row.name}.png", image, "image/png")
    note = {"note": f"Only the {MAX_POINTS} largest are drawn."} if rows.is_cut else {}
    return {**file.note, "file_id": file.file_id, "filename": file.filename, "url": file.url, **note}


async def _aggregate(engine: Engine, measure: str, where: tuple[list[str], Filters], *, limit: int) -> Rows:
    relation = await engine.describe()
    dimensions, filters = where
    query = build_aggregate(relation, read_measure(measure, relation), dimensions=dimensions, filters=filters)
    return await engine.fetch(query, limit)
