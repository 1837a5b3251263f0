"""Output of the command line: results on stdout, progress and errors on stderr."""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import zip_longest
from pathlib import Path
from shutil import which
from typing import Any
from unicodedata import combining, east_asian_width

import typer
from msgspec import Struct, field

from shared.redaction import redact_text
from shared.text import CONTROLS, harmless


class _Output(Struct):
    """What a command has shown so far, kept for one JSON text at its end."""

    rows: list[Any] | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    value: Any = None
    sentences: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def to_value(self, code: int) -> Any:
        """Return the value: rows or fields where there are some, else the sentences."""
        if self.value is not None:
            return self.value
        if self.fields:
            return self.fields
        if self.rows is not None:
            return self.rows
        if code:
            return {"error": "; ".join(self.complaints or self.sentences), "exit_code": code}
        return {"message": "\n".join(self.sentences)}


# None unless the command was given `--json`.
# It holds for the whole command line, and is set once at its start: a hundred calls of `say` would only pass it on.
_output: ContextVar[_Output | None] = ContextVar("output", default=None)


def answer_in_json() -> None:
    """From now on keep what is shown; `end_json` writes it."""
    _output.set(_Output())


def is_json() -> bool:
    """Return whether the command was given `--json`."""
    return _output.get() is not None


def end_json(code: int) -> None:
    """Write what was kept as one JSON text, if the command was given `--json`."""
    if (output := _output.get()) is not None:
        _output.set(None)
        _write_json(output.to_value(code))


def say(text: str = "", *, label: str = "") -> None:
    """Write one line to stdout; a label of ours, which may have a colour, stands before it."""
    if (output := _output.get()) is not None:
        output.sentences.append(label + text)
    else:
        # Also what our commands say holds names that others chose.
        typer.echo(label + harmless(text))


def complain(text: str) -> None:
    """Write one line about an error to stderr."""
    line = harmless(redact_text(" ".join(text.split())))
    if (output := _output.get()) is not None:
        output.complaints.append(line)
    # Nobody may read it any more: Ctrl+C in `parley run 2>&1 | tee log` ends `tee` first.
    with suppress(OSError):
        typer.echo(f"parley: {line}", err=True)


def show_json(value: Any) -> None:
    """Write a value as JSON, whether or not the command was given `--json`."""
    if (output := _output.get()) is not None:
        output.value = value
    else:
        _write_json(value)


def _write_json(value: Any) -> None:
    text = json.dumps(value, default=str, ensure_ascii=False, indent=2)
    # JSON's own rules leave the controls beyond ASCII as they are.
    typer.echo(CONTROLS.sub(lambda control: f"\\u{ord(control[0]):04x}", text))


def keep_rows(rows: Sequence[Mapping[str, object]]) -> None:
    """Keep rows for a program; for people nothing is written."""
    if (output := _output.get()) is not None:
        output.rows = [dict(row) for row in rows]


def show_fields(fields: Mapping[str, object], *, values: Mapping[str, object] | None = None) -> None:
    """Write one line for each field that is not None; `values` are for programs, where they differ from the texts."""
    if (output := _output.get()) is not None:
        output.fields.update(_to_keys(fields) if values is None else values)
        return
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        if value is not None:
            typer.echo(harmless(f"{name:{width}}  {value}"))


def seconds_since_start(pid: int) -> float | None:
    """Return how many seconds a process has run, imports included; None where the system doesn't tell."""
    try:
        # The fields after the program's name, which may contain blanks; field 22 is the start in clock ticks.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        return None


def show_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    name: str | None = None,
    values: Sequence[Mapping[str, object]] | None = None,
    empty: str = "",
) -> None:
    """Write rows as a table, with cells as plain text; `empty` is said when there are none.

    For programs a table with a name is a field, and one without a name is all that is written; `values` are its rows
    where they differ from the texts.
    """
    if (output := _output.get()) is not None:
        if values is None:
            values = [_to_keys(dict(zip(columns, row, strict=True))) for row in rows]
        json_rows = [dict(value) for value in values]
        if name is None:
            output.rows = json_rows
        else:
            output.fields[name] = json_rows
        return
    if not rows and empty:
        say(empty)
        return
    cells = [["" if cell is None else harmless(str(cell)).expandtabs() for cell in row] for row in rows]
    lines = _fit_on_screen(columns, cells) if sys.stdout.isatty() else _align(columns, cells)
    typer.echo("\n".join(line.rstrip() for line in lines))


def _fit_on_screen(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table as wide as the terminal, with columns that wrap."""
    # rich is imported by what draws with it: most commands write plain lines, and so does this one into a pipe.
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console()
    with console.capture() as capture:
        console.print(table)
    return capture.get().splitlines()


def _align(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table for a pipe: whole lines are easier to search than wrapped ones."""
    parts = [[cell.split("\n") for cell in row] for row in (columns, *rows)]
    widths = [max(_count_columns(line) for cell in column for line in cell) for column in zip(*parts, strict=True)]
    table = [
        "   ".join(line + " " * (width - _count_columns(line)) for line, width in zip(lines, widths, strict=True))
        for row in parts
        for lines in zip_longest(*row, fillvalue="")
    ]
    return [table[0], "─" * (sum(widths) + 3 * (len(widths) - 1)), *table[1:]]


def _count_columns(text: str) -> int:
    """Return how many columns of a terminal a line takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def _to_keys(fields: Mapping[str, object]) -> dict[str, object]:
    return {name.replace(" ", "_"): value for name, value in fields.items()}


def shorten(path: Path) -> str:
    """Return a path as people read it: relative to the folder they are in where it is below."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def name_command(words: str) -> str:
    """Return a command of ours as it can be typed here: with its path where the shell does not find it."""
    program = Path(sys.argv[0])
    if program.name != "parley" or which("parley") is not None:
        return f"parley {words}"
    return f"{shorten(program.absolute())} {words}"


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Show a line on a terminal until the block ends; write nothing elsewhere."""
    line = f"{text}…" if sys.stderr.isatty() else ""
    # What is said meanwhile is written over it.
    print(line, end="\r" if line else "", file=sys.stderr, flush=True)  # noqa: T201  # no line of a result
    try:
        yield
    finally:
        print(" " * len(line), end="\r" if line else "", file=sys.stderr, flush=True)  # noqa: T201  # as above
