"""The engine of files, and of joins: DuckDB in a process of its own, which reads nothing but the files it is given."""

import json
import tempfile
from asyncio import Semaphore
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from modules.data_analyst.queries import Column, Query, Relation, quote
from modules.data_analyst.settings import AnalystSettings
from modules.data_analyst.tables import MAX_CELL_CHARS, MAX_COLUMNS, Rows, to_rows
from shared.errors import ToolError
from shared.files.subprocess_sandbox import run_isolated

PROGRAM = Path(__file__).with_name("duckdb_program.py")
REFUSED = 3
# Each process has memory of its own.
AT_ONCE = Semaphore(2)


@dataclass(frozen=True, slots=True)
class FileSource:
    """A CSV, TSV or Parquet file; in SQL it is a view with the source's name."""

    name: str
    path: str
    settings: AnalystSettings

    async def describe(self) -> Relation:
        """Return the file's columns; raises `ToolError` when it can't be read."""
        found = await self._run({"task": "describe", "file": self._file})
        columns = tuple(Column(each["name"], each["type"], is_number=each["is_number"]) for each in found["columns"])
        return Relation("duckdb", quote(self.name), columns)

    async def fetch(self, query: Query, limit: int) -> Rows:
        """Return the first rows of a SELECT; raises `ToolError` when it fails."""
        asked = {"sql": query.text, "parameters": query.parameters, "limit": limit}
        asked |= {"max_chars": MAX_CELL_CHARS + 1, "max_columns": MAX_COLUMNS}
        found = await self._run({"task": "fetch", "file": self._file} | asked)
        rows = [tuple(map(_read_cell, row, found["numbers"])) for row in found["rows"]]
        return to_rows(found["columns"], rows, limit)

    async def export(self, query: Query, folder: Path, side: str) -> dict[str, Any]:
        """Return what the join needs to run the query itself."""
        return {"file": self._file, "sql": query.text, "parameters": query.parameters}

    @property
    def _file(self) -> dict[str, str]:
        return {"path": self.path, "view": self.name}

    async def _run(self, task: dict[str, Any]) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="parley-duckdb-") as folder:
            return await run_task(task | {"paths": [self.path], "folder": folder}, self.settings)


async def run_task(task: Mapping[str, Any], settings: AnalystSettings) -> dict[str, Any]:
    """Run a task of the program; raises `ToolError` with the reason when it fails or takes too long."""
    content = json.dumps({**task, "memory_mb": settings.memory_mb}).encode()
    try:
        async with AT_ONCE:
            ended = await run_isolated(PROGRAM, content=content, seconds=settings.timeout_seconds)
    except TimeoutError:
        raise ToolError(f"That took longer than {settings.timeout_seconds:g} s; ask for less at once.") from None
    if ended.status == REFUSED:
        raise ToolError(f"The source refused that: {ended.reason}")
    if ended.status != 0:
        raise ToolError("The source could not do that; ask for less at once.")
    result: dict[str, Any] = json.loads(ended.output)
    return result


def _read_cell(text: str | None, is_number: bool) -> Any:
    return Decimal(text) if is_number and text is not None else text
