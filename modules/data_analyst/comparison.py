"""Compares a measure of two sources: each computes its aggregate in its own engine, DuckDB joins the results."""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from modules.data_analyst.duckdb_engine import run_task
from modules.data_analyst.queries import MAX_KEYS, SHOWN_COLUMNS, Filters, Relation, build_side, read_measure
from modules.data_analyst.settings import AnalystSettings
from modules.data_analyst.sources import Engine
from modules.data_analyst.tables import to_number
from shared.errors import ToolError

if TYPE_CHECKING:
    from shared.files.storage import FilesOfUser

STATUSES = ("match", "minor_diff", "major_diff", "only_in_a", "only_in_b")


class Comparison(Struct, frozen=True):
    """What to compare, and from where on a difference counts."""

    measure: str
    # None: the columns of both sources that are no measures.
    keys: Sequence[str] | None
    filters: Filters
    tolerance: Decimal
    major_threshold_pct: Decimal
    top: int


async def compare(
    files: "FilesOfUser", engines: tuple[Engine, Engine], comparison: Comparison, *, settings: AnalystSettings
) -> dict[str, Any]:
    """Return the fields of the tool's result; raises `ToolError` for columns that a source does not have."""
    a, b = await asyncio.gather(*(engine.describe() for engine in engines))
    keys = find_shared_keys(a, b, measure=comparison.measure) if comparison.keys is None else comparison.keys
    queries = [
        build_side(relation, read_measure(comparison.measure, relation), keys=keys, filters=comparison.filters)
        for relation in (a, b)
    ]
    with tempfile.TemporaryDirectory(prefix="parley-compare-") as folder:
        side_a, side_b = await asyncio.gather(
            *(
                engine.export(query, Path(folder), side)
                for engine, query, side in zip(engines, queries, "ab", strict=True)
            )
        )
        sides = {"a": side_a, "b": side_b}
        paths = [side["csv"] if "csv" in side else side["file"]["path"] for side in sides.values()]
        limits = {
            "tolerance": str(comparison.tolerance),
            "threshold": str(comparison.major_threshold_pct),
            "top": comparison.top,
        }
        task = {"task": "compare", "paths": paths, "keys": len(keys), **limits, **sides}
        answer = await run_task(files, task, settings)
    return {"keys": list(keys), **_to_result(answer, keys)}


def find_shared_keys(a: Relation, b: Relation, measure: str) -> list[str]:
    """Return the columns that both have and that are no measures: no numbers, or else whole numbers beside `measure`.

    Raises `ToolError` with the columns of both when there are none.
    """
    names = {column.name.lower(): column for column in b.columns}
    shared = [(column, names[column.name.lower()]) for column in a.columns if column.name.lower() in names]
    measured = read_measure(measure, a).column
    keys = [mine.name for mine, theirs in shared if not (mine.is_number or theirs.is_number)]
    keys = keys or [mine.name for mine, theirs in shared if mine != measured and mine.is_whole and theirs.is_whole]
    if not keys:
        columns_a, columns_b = ([column.name for column in relation.columns][:SHOWN_COLUMNS] for relation in (a, b))
        raise ToolError(
            "The sources share no column that could be a key; name keys.", columns_a=columns_a, columns_b=columns_b
        )
    return keys[:MAX_KEYS]


def _to_result(answer: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    counts = {status: answer["counts"].get(status, 0) for status in STATUSES}
    total_a, total_b = Decimal(answer["total_a"]), Decimal(answer["total_b"])
    summary = {
        "total_rows": sum(counts.values()),
        "matches": counts["match"],
        "minor_differences": counts["minor_diff"],
        "major_differences": counts["major_diff"],
        "only_in_a": counts["only_in_a"],
        "only_in_b": counts["only_in_b"],
        "total_source_a": to_number(total_a),
        "total_source_b": to_number(total_b),
        "total_diff": to_number(total_a - total_b),
    }
    top = []
    for values, *figures, status in answer["top"]:
        a, b, difference, percentage = (None if figure is None else to_number(Decimal(figure)) for figure in figures)
        top.append(
            {
                "key": dict(zip(keys, values, strict=True)),
                "source_a_value": a,
                "source_b_value": b,
                "absolute_diff": difference,
                "percentage_diff": percentage,
                "status": status,
            }
        )
    return {"summary": summary, "top_differences": top, "interpretation": _interpret(counts, total_a, total_b)}


def _interpret(counts: Mapping[str, int], total_a: Decimal, total_b: Decimal) -> str:
    rows = sum(counts.values())
    if rows == 0:
        return "Neither source has rows that fit."
    if counts["only_in_a"] + counts["only_in_b"] == rows:
        return "No key is in both sources. Do the keys mean the same, and are they written alike?"
    if counts["match"] == rows:
        return f"The sources agree on all {rows:,} keys (100%)."
    words = {
        "minor_diff": "differ slightly",
        "major_diff": "differ much",
        "only_in_a": "are only in A",
        "only_in_b": "are only in B",
    }
    parts = [f"{counts[status]:,} {description}" for status, description in words.items() if counts[status]]
    # Rounded down: what is not all never reads as 100%.
    share = f"{counts['match'] * 1000 // rows / 10:g}%"
    agreement = f"Of {rows:,} keys {counts['match']:,} agree ({share}); {', '.join(parts)}."
    if total_a == total_b:
        return f"{agreement} The totals are equal."
    larger, by = ("A", total_a - total_b) if total_a > total_b else ("B", total_b - total_a)
    share_of_a = f" ({by * 100 / abs(total_a):.2f}% of A's)" if total_a else ""
    return f"{agreement} The total of {larger} is larger by {by.normalize():f}{share_of_a}."
