"""Measures a revision and this tree in turn on one machine, and shows both beside each other.

The revision gets a work tree and an environment of its own in `build/against`, where they stay. A figure of one day
says nothing about that of another: what the machine does besides is measured before each run and shown.
"""

import re
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.children import ROOT

# A line of the table that the benchmark prints: the figure, its value with a unit, the floor's.
LINE = re.compile(r"^│ (?P<name>[^│]+?) +│ +(?P<value>[\d.]+)(?: (?P<unit>\S+))? │ +(?P<floor>[\d.]*) +│", re.MULTILINE)
LOOK_SECONDS = 2.0

Values = dict[str, list[float]]


def prepare(revision: str) -> Path:
    """Return the work tree of a revision, with the environment that it wants."""
    command = ["git", "rev-parse", "--short=12", f"{revision}^{{commit}}"]
    sha = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    folder = ROOT / "build" / "against" / sha
    if not folder.exists():
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", folder, sha], cwd=ROOT, check=True)
    subprocess.run(["make", "--no-print-directory", "ready-for-tests"], cwd=folder, check=True)
    return folder


def measure(folder: Path, only: Sequence[str]) -> Mapping[str, tuple[float, str]]:
    """Run the benchmark of a tree, and return its figures with their units, and those of its floor."""
    options = [part for name in only for part in ("--only", name)]
    command = [str(folder / ".venv" / "bin" / "python"), "-m", "tests.bench", *options]
    return read_figures(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout)


def read_figures(output: str) -> Mapping[str, tuple[float, str]]:
    """Return the figures of a printed table with their units, and those of the floor."""
    figures = {}
    for line in LINE.finditer(output):
        figures[line["name"]] = (float(line["value"]), line["unit"] or "")
        if line["floor"]:
            figures[f"{line['name']} (floor)"] = (float(line["floor"]), line["unit"] or "")
    return figures


def others() -> float:
    """Return which share of the machine is busy now, while nothing is measured."""
    busy, whole = read_ticks()
    time.sleep(LOOK_SECONDS)
    later, end = read_ticks()
    return (later - busy) / max(1, end - whole)


def read_ticks() -> tuple[int, int]:
    """Return the ticks in which the processors were busy since the machine's start, and all of them."""
    ticks = [int(part) for part in Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()[1:]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def compare(revision: str, only: Sequence[str], rounds: int) -> None:
    """Measure both in turn, and print the median of each figure, old and new."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    old, units, shares = prepare(revision), dict[str, str](), list[float]()
    values: dict[Path, Values] = {old: defaultdict(list), ROOT: defaultdict(list)}
    for number in range(rounds):
        # Who comes first meets another machine than who comes second.
        for folder in (old, ROOT) if number % 2 == 0 else (ROOT, old):
            shares.append(others())
            for name, (value, unit) in measure(folder, only).items():
                values[folder][name].append(value)
                units[name] = unit
            console.print(f"round {number + 1} of {rounds}: {revision if folder == old else 'this tree'}")
    table = Table(title=f"{revision} and this tree, medians of {rounds} rounds in turn")
    for column in ("figure", revision, "this tree", "new / old"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for name, before in values[old].items():
        if after := values[ROOT].get(name):
            was, is_now = statistics.median(before), statistics.median(after)
            ratio = f"{is_now / was:.2f}" if was else ""
            table.add_row(name, f"{was:.2f} {units[name]}", f"{is_now:.2f} {units[name]}", ratio)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print(
        f"Before the runs, something else used {statistics.mean(shares):.0%} of the machine, {max(shares):.0%} at most."
    )
