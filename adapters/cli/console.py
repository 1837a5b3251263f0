"""Output of the command line: results on stdout, progress and errors on stderr."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.table import Table


def say(text: str = "") -> None:
    """Write one line to stdout."""
    typer.echo(text)


def complain(text: str) -> None:
    """Write one line about an error to stderr."""
    typer.echo(f"parley: {' '.join(text.split())}", err=True)


def seconds_since_start() -> float | None:
    """Return how many seconds the process has run, imports included; None where the system doesn't tell."""
    try:
        # The fields after the program's name, which may contain blanks; field 22 is the start in clock ticks.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        return None


def find_version() -> str:
    """Return the installed version."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("parley")
    except PackageNotFoundError:
        return "(not installed)"


def make_table(*columns: str, title: str | None = None) -> "Table":
    """Return an empty table with these columns."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write rows as a table, with cells as plain text."""
    from rich.console import Console
    from rich.text import Text

    table = make_table(*columns)
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    # A pipe has no width, and whole lines are easier to search than wrapped ones.
    console = Console(width=None if sys.stdout.isatty() else 1000)
    with console.capture() as written:
        console.print(table)
    say("\n".join(line.rstrip() for line in written.get().splitlines()))


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Show a progress line on a terminal; write nothing elsewhere."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield
