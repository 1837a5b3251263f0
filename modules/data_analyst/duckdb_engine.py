"""The engine of files, and of joins: DuckDB in the sandbox, where it reads nothing but the files that it is given."""

import asyncio
import codecs
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from decimal import Decimal
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from modules.data_analyst.queries import Column, Query, Relation, quote
from modules.data_analyst.settings import AnalystSettings
from modules.data_analyst.tables import MAX_CELL_CHARS, MAX_COLUMNS, Rows, to_rows
from shared.environments import find_python
from shared.errors import ToolError
from shared.files.file_types import find_encoding
from shared.sandbox.job import MEGABYTE, Limits
from shared.sandbox.programs import Program

if TYPE_CHECKING:
    from shared.files.storage import FilesOfUser

PROGRAM = Path(__file__).with_name("duckdb_program.py")
PYTHON = find_python("duckdb") or Path(sys.executable)
REFUSED = 3
CHUNK_BYTES = MEGABYTE
# Of the address space that the engine needs beside the memory for its data; what it writes are temporary files.
ENGINE_BYTES = 1024 * MEGABYTE
TEMPORARY_BYTES = 1024 * MEGABYTE
# How much of the machine it may use; the engine fails when these exist and can't be read.
CGROUP = (Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))


class FileSource(Struct, frozen=True):
    """A CSV, TSV or Parquet file; in SQL it is a view with the source's name."""

    name: str
    path: str
    settings: AnalystSettings
    files: "FilesOfUser"

    async def describe(self) -> Relation:
        """Return the file's columns; raises `ToolError` when it can't be read."""
        answer = await self._run({"task": "describe"})
        columns = tuple(
            Column(column["name"], column["type"], is_number=column["is_number"]) for column in answer["columns"]
        )
        return Relation("duckdb", quote(self.name), columns)

    async def fetch(self, query: Query, limit: int) -> Rows:
        """Return the first rows of a SELECT; raises `ToolError` when it fails."""
        task = {"sql": query.text, "parameters": query.parameters, "limit": limit}
        task |= {"max_chars": MAX_CELL_CHARS + 1, "max_columns": MAX_COLUMNS}
        answer = await self._run({"task": "fetch"} | task)
        rows = [
            tuple(
                Decimal(text) if is_number and text is not None else text
                for text, is_number in zip(row, answer["numbers"], strict=False)
            )
            for row in answer["rows"]
        ]
        return to_rows(answer["columns"], rows, limit)

    async def export(self, query: Query, folder: Path, side: str) -> dict[str, Any]:
        """Return what the join needs to run the query itself."""
        file = await self._to_file(folder / f"{side}-utf8.csv")
        return {"file": file, "sql": query.text, "parameters": query.parameters}

    async def _to_file(self, copy: Path) -> dict[str, str]:
        path = await asyncio.to_thread(to_utf8, Path(self.path), copy)
        return {"path": str(path), "view": self.name}

    async def _run(self, task: dict[str, Any]) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="parley-duckdb-") as folder:
            file = await self._to_file(Path(folder) / "utf8.csv")
            return await run_task(self.files, task | {"file": file, "paths": [file["path"]]}, self.settings)


def to_utf8(path: Path, copy: Path) -> Path:
    """Return the path of a file that DuckDB can read: of a text that is no UTF-8, a copy that is."""
    if path.suffix.lower() == ".parquet":
        return path
    decoder, sample = codecs.getincrementaldecoder("utf-8")(), b""
    try:
        with path.open("rb") as file:
            while sample := file.read(CHUNK_BYTES):
                decoder.decode(sample)
    except OSError:
        # The program says what is wrong.
        return path
    except UnicodeDecodeError:
        with path.open("rb") as file:
            head = file.read(CHUNK_BYTES)
        # The beginning may be plain ASCII, which tells nothing.
        encoding = find_encoding(sample if head.isascii() else head)
        with (
            path.open(encoding=encoding, errors="replace", newline="") as old,
            copy.open("w", encoding="utf-8", newline="") as new,
        ):
            shutil.copyfileobj(old, new, CHUNK_BYTES)
        return copy
    return path


async def run_task(files: "FilesOfUser", task: Mapping[str, Any], settings: AnalystSettings) -> dict[str, Any]:
    """Run a task of the program in the person's turn; raises `ToolError` with the reason when it fails.

    It reads no files but those at the task's `paths`.
    """
    content = json.dumps({**task, "memory_mb": settings.memory_mb}).encode()
    limits = Limits(
        memory_bytes=settings.memory_mb * MEGABYTE + ENGINE_BYTES,
        cpu_seconds=ceil(2 * settings.timeout_seconds),
        seconds=settings.timeout_seconds,
        file_bytes=TEMPORARY_BYTES,
        folder_bytes=TEMPORARY_BYTES,
    )
    program = Program(
        PROGRAM, limits=limits, readable=(*map(Path, task["paths"]), *CGROUP), has_folder=True, python=PYTHON
    )
    try:
        ended = await files.run_program(program, content)
    except TimeoutError:
        raise ToolError(f"That took longer than {settings.timeout_seconds:g} s; ask for less at once.") from None
    if ended.status == REFUSED:
        raise ToolError(f"The source refused that: {ended.reason}")
    try:
        result: dict[str, Any] = json.loads(ended.output)
    except (ValueError, RecursionError):
        result = {}
    if ended.status != 0 or not result:
        raise ToolError("The source could not do that; ask for less at once.")
    return result
