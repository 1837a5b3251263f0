"""Draws rows as a chart, in a process of its own that matplotlib is imported in."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from modules.data_analyst.tables import Rows
from shared.environments import find_python
from shared.errors import ToolError
from shared.sandbox.job import MEGABYTE, Limits
from shared.sandbox.programs import Program

if TYPE_CHECKING:
    from shared.files.storage import FilesOfUser

LIMITS = Limits(memory_bytes=1024 * MEGABYTE, cpu_seconds=20, seconds=30)
# matplotlib writes its list of fonts into its folder.
PROGRAM = Program(
    Path(__file__).with_name("chart_program.py"),
    limits=LIMITS,
    has_folder=True,
    python=find_python("matplotlib") or Path(sys.executable),
)
REFUSED = 3
MAX_LABEL_CHARS, MAX_TITLE_CHARS = 40, 120
MAX_SLICES = 12

Kind = Literal["bar", "line", "pie"]


async def draw(files: "FilesOfUser", rows: Rows, kind: Kind, *, title: str) -> bytes:
    """Return a PNG of the last column by the others; raises `ToolError` when there is nothing to draw."""
    points = [row for row in rows.rows if row[-1] is not None]
    if kind == "line":
        points.sort(key=lambda row: [str(cell) for cell in row[:-1]])
    values = [float(row[-1]) for row in points]
    if not points:
        raise ToolError("There are no rows to draw.")
    if kind == "pie" and (len(values) > MAX_SLICES or min(values) < 0 or sum(values) <= 0):
        raise ToolError(f"A pie has at most {MAX_SLICES} slices, none below 0; take a bar chart.")
    labels = [
        " / ".join("none" if cell is None else str(cell) for cell in row[:-1])[:MAX_LABEL_CHARS] for row in points
    ]
    chart = {"kind": kind, "labels": labels, "values": values, "measure": rows.columns[-1]}
    content = json.dumps(chart | {"title": title[:MAX_TITLE_CHARS]}).encode()
    try:
        ended = await files.run_program(PROGRAM, content)
    except TimeoutError:
        raise ToolError("Drawing that took too long; draw less.") from None
    if ended.status == REFUSED:
        raise ToolError(
            "Charts are off: the package matplotlib is missing. The operator can install Parley with its extra, "
            "parley[analysis]. Give the person a table meanwhile."
        )
    if ended.status != 0:
        raise ToolError("That can't be drawn.")
    return ended.output
