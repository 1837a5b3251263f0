"""`python -m tests.bench` compares a real `parley run` with the floor program and prints a table, in two minutes."""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from pathlib import Path

import uvloop
from rich.console import Console
from rich.live import Live
from rich.table import Table

from tests.bench.against import compare
from tests.bench.figures import Figure, missed
from tests.bench.measures import NAMES, QUICK, USUAL_NAMES, WHOLE, measured

MOST_SECONDS = 175


def build_table() -> Table:
    table = Table(title="A turn of Parley, against a floor that does only what nobody can leave out")
    for name in ("figure", "value", "floor", "ratio", "goal", "reached"):
        table.add_column(name, justify="left" if name in {"figure", "goal"} else "right", no_wrap=name != "figure")
    return table


def add_line(table: Table, figure: Figure) -> None:
    reached = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}[figure.is_reached]
    table.add_row(
        figure.name,
        f"{figure.value:.2f} {figure.unit}".strip(),
        "" if figure.floor is None else f"{figure.floor:.2f}",
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        figure.goal,
        reached,
    )


async def run(names: tuple[str, ...], *, is_quick: bool) -> list[Figure]:
    """Measure and show each figure as it is measured; after the time limit the rest is left out."""
    figures: list[Figure] = []
    table = build_table()
    console = Console(width=None if sys.stdout.isatty() else 120)
    folders = tempfile.TemporaryDirectory(prefix="parley-bench-", ignore_cleanup_errors=True)
    with folders as folder, Live(table, console=console, auto_refresh=False) as live, suppress(TimeoutError):
        # Closed explicitly, so that started programs end also after the time limit.
        async with aclosing(measured(Path(folder), names, QUICK if is_quick else WHOLE)) as coming:
            await asyncio.wait_for(show(coming, figures, table, live), MOST_SECONDS)
        return figures
    console.print(f"stopped after {MOST_SECONDS} seconds: the machine is too busy to measure the rest")
    return figures


async def show(coming: AsyncIterator[Figure], figures: list[Figure], table: Table, live: Live) -> None:
    """Add the figures to the list and to the table."""
    async for figure in coming:
        figures.append(figure)
        add_line(table, figure)
        live.refresh()


def main() -> None:
    """Parse the options, measure, and print the goals that were missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few turns only: shows that it works, tells little")
    parser.add_argument("--only", action="append", choices=NAMES, help="measure only this; may be given several times")
    parser.add_argument("--against", metavar="REVISION", help="measure this revision, too, in turn with this tree")
    parser.add_argument("--rounds", type=int, default=3, help="with --against: how often each is measured")
    options = parser.parse_args()
    if options.against:
        return compare(options.against, options.only or (), options.rounds)
    figures = uvloop.run(run(tuple(options.only or USUAL_NAMES), is_quick=options.quick))
    names = ", ".join(figure.name for figure in missed(figures))
    return Console().print(f"not reached: {names}" if names else "every goal is reached", highlight=False)


if __name__ == "__main__":
    main()
