"""Runs one task in DuckDB, in the sandbox: reads it as JSON from standard input, writes the result as JSON.

DuckDB's own settings forbid, too, what the sandbox does: only the files that the task names can be read, and nothing
can be written but temporary files in the current folder.
"""

import json
import resource
import sys
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from pathlib import Path
from typing import Any

REFUSED = 3
DECIMAL = "DECIMAL(38, 10)"
NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
FRACTIONS = ("FLOAT", "DOUBLE")

SIDE = "CREATE TEMP TABLE _{side} AS SELECT *, true AS here FROM ({sql}) AS found"
# An underscore begins the name of no source.
JOINED = """
CREATE TEMP TABLE _joined AS
WITH both_sides AS (
    SELECT {keys}, a.here AS in_a, b.here AS in_b, a.value AS a, b.value AS b,
           abs(coalesce(a.value, 0) - coalesce(b.value, 0)) AS difference
    FROM _a AS a FULL JOIN _b AS b ON {on}
)
SELECT *, CASE
    WHEN in_a IS NULL THEN 'only_in_b'
    WHEN in_b IS NULL THEN 'only_in_a'
    WHEN a IS NOT DISTINCT FROM b THEN 'match'
    WHEN a IS NULL OR b IS NULL THEN 'major_diff'
    WHEN difference <= CAST($1 AS DECIMAL(38, 10)) THEN 'match'
    WHEN difference * 100 <= abs(a) * CAST($2 AS DECIMAL(10, 4)) THEN 'minor_diff'
    ELSE 'major_diff' END AS status
FROM both_sides
"""
COUNTS = "SELECT status, count(*), sum(a), sum(b) FROM _joined GROUP BY status"
TOP = "SELECT {keys}, a, b, difference, status FROM _joined WHERE status <> 'match' ORDER BY difference DESC, {keys}"


class Refused(Exception):
    """The task can't be done; the message says why."""


def main() -> None:
    """Run the task; the status is `REFUSED` when it can't be done, with the reason on standard error."""
    try:
        import duckdb
    except ImportError:
        _refuse("the package duckdb is missing. The operator can install Parley with its extra, parley[analysis].")
    task = json.load(sys.stdin)
    try:
        options: dict[str, Any] = {
            "memory_limit": f"{task['memory_mb']}MB",
            "threads": 2,
            "temp_directory": ".",
            "preserve_insertion_order": False,
        }
        connection = duckdb.connect(":memory:", config=options)
        connection.execute("SET TimeZone = 'UTC'")
        paths = ", ".join(_quoted(path) for path in task["paths"])
        connection.execute(f"SET allowed_paths = [{paths}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        json.dump(TASKS[task["task"]](duckdb, connection, task), sys.stdout)
    except (duckdb.Error, Refused) as error:
        _refuse(str(error).partition("\n\n")[0])


def _refuse(reason: str) -> None:
    sys.stderr.write(reason[:1000])
    sys.stderr.flush()
    sys.exit(REFUSED)


def _describe(_duckdb: Any, connection: Any, task: dict[str, Any]) -> dict[str, Any]:
    _make_view(connection, task["file"])
    columns = connection.execute(f"DESCRIBE SELECT * FROM {_name(task['file']['view'])}").fetchall()
    return {"columns": [{"name": name, "type": kind, "is_number": _is_number(kind)} for name, kind, *_ in columns]}


def _fetch(duckdb: Any, connection: Any, task: dict[str, Any]) -> dict[str, Any]:
    _make_view(connection, task["file"])
    statements = duckdb.extract_statements(task["sql"])
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise Refused("Give one statement, a SELECT.")
    relation = connection.sql(task["sql"], params=task["parameters"])
    if relation is None:
        raise Refused("Give one statement, a SELECT.")
    columns, kinds = relation.columns, [str(kind) for kind in relation.types]
    if len(columns) > task["max_columns"]:
        raise Refused(f"Give a SELECT of at most {task['max_columns']} columns.")
    # As text: Python has no values for some types, and numbers keep all their digits.
    cell = f"left(CAST(COLUMNS(*) AS VARCHAR), {int(task['max_chars'])})"
    rows = relation.limit(task["limit"] + 1).project(cell).fetchall()
    return {"columns": columns, "numbers": [_is_number(kind) for kind in kinds], "rows": rows}


def _compare(_duckdb: Any, connection: Any, task: dict[str, Any]) -> dict[str, Any]:
    keys = [f"k{at}" for at in range(task["keys"])]
    columns = ", ".join(f"'{key}': 'VARCHAR'" for key in keys) + f", 'value': '{DECIMAL}'"
    for side in ("a", "b"):
        source = task[side]
        if "file" in source:
            _make_view(connection, source["file"])
            connection.execute(SIDE.format(side=side, sql=source["sql"]), source["parameters"])
        else:
            query = (
                f"SELECT * FROM read_csv({_quoted(source['csv'])}, header = false, auto_detect = false, delim = ',',"
                f" quote = '\"', escape = '\"', allow_quoted_nulls = false, columns = {{{columns}}})"
            )
            connection.execute(SIDE.format(side=side, sql=query))
    joined = JOINED.format(
        keys=", ".join(f"coalesce(a.{key}, b.{key}) AS {key}" for key in keys),
        on=" AND ".join(f"a.{key} IS NOT DISTINCT FROM b.{key}" for key in keys),
    )
    connection.execute(joined, [task["tolerance"], task["threshold"]])
    counts = connection.execute(COUNTS).fetchall()
    top = []
    rows = connection.execute(f"{TOP.format(keys=', '.join(keys))} LIMIT {int(task['top'])}").fetchall()
    for row in rows:
        *values, a, b, difference, status = row
        percentage = None
        if a is not None and b is not None and a != 0:
            with localcontext(prec=60):
                percentage = (difference * 100 / abs(a)).quantize(Decimal("0.0001"), ROUND_HALF_EVEN)
        figures = (a, b, difference, percentage, status)
        top.append([values, *(None if figure is None else str(figure) for figure in figures)])
    return {
        "counts": {status: count for status, count, _, _ in counts},
        "total_a": str(sum((a for _, _, a, _ in counts if a is not None), Decimal(0))),
        "total_b": str(sum((b for _, _, _, b in counts if b is not None), Decimal(0))),
        "top": top,
        "memory_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def _make_view(connection: Any, file: dict[str, str]) -> None:
    if not Path(file["path"]).is_file():
        raise Refused("its file is not on this machine; an admin can look at its row.")
    path, view = file["path"], f"CREATE OR REPLACE VIEW {_name(file['view'])} AS SELECT"
    if path.lower().endswith(".parquet"):
        connection.execute(f"{view} * FROM read_parquet({_quoted(path)})")
        return
    # All rows are looked at, so that no later one has another type.
    reader = f"read_csv({_quoted(path)}, sample_size = -1"
    columns = connection.execute(f"DESCRIBE SELECT * FROM {reader})").fetchall()
    fractions = {column for column, kind, *_ in columns if kind in FRACTIONS}
    types = ", ".join(f"{_quoted(column)}: 'VARCHAR'" for column in fractions)
    # Fractions are read as decimals and not through binary floating point.
    select_list = ", ".join(
        f"CAST({_name(column)} AS {DECIMAL}) AS {_name(column)}" if column in fractions else _name(column)
        for column, *_ in columns
    )
    connection.execute(f"{view} {select_list} FROM {reader}{f', types = {{{types}}}' if types else ''})")


def _is_number(kind: str) -> bool:
    return kind in NUMBERS or kind in FRACTIONS or kind.startswith("DECIMAL")


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


TASKS = {"describe": _describe, "fetch": _fetch, "compare": _compare}

if __name__ == "__main__":
    main()
