"""`python -m tests.goals` prints how near the code is to what it aims at; it fails nothing.

`python -m tests.goals agent` lists the private functions of `agent/` with one caller instead.

Private functions with one caller send a reader back and forth; a participle does not say what a variable holds.
"""

import ast
import sys
from collections import Counter
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from tests.support.source_tree import Source, sources_in

PACKAGES = ("agent", "adapters", "shared", "modules", "migrations", "tests")
MOST_SINGLE_CALLERS, MOST_PARTICIPLES = 10, 5
WORDS = """
each added allowed answered asked begun built called changed checked closed described done drawn expected filtered
finished following found given going gone got granted held kept known left listed made meant missing named needed
noted offered opened played read received recorded refused removed said seen sent shown started stored taken told
used waiting wanted written
"""
PARTICIPLES = frozenset(WORDS.split())


@dataclass(frozen=True, slots=True)
class Count:
    """What one package holds: lines, functions, private ones with one caller, and variables called by a participle."""

    lines: int
    functions: int
    single_callers: int
    participles: int


def count(package: str) -> Count:
    """Count the Python files of a package."""
    sources = list(sources_in(package))
    lines = sum(len(source.text.splitlines()) for source in sources)
    functions = sum(1 for source in sources for _ in source.functions())
    return Count(
        lines,
        functions,
        sum(len(list_single_callers(source)) for source in sources),
        sum(count_participles(source) for source in sources),
    )


def list_single_callers(source: Source) -> list[str]:
    """Return the private functions of a file that are mentioned once in it, as `file:line: name`."""
    functions = source.functions()
    private = [function for function in functions if function.name.startswith("_") and not function.name.endswith("__")]
    mentions = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in source.nodes()
        if isinstance(node, ast.Name | ast.Attribute)
    )
    return [f"{source.path}:{node.lineno}: {node.name}" for node in private if mentions[node.name] == 1]


def count_participles(source: Source) -> int:
    """Return how often a variable or parameter of a file is called by a participle."""
    names = [
        node.id if isinstance(node, ast.Name) else node.arg
        for node in source.nodes()
        if isinstance(node, ast.Name | ast.arg)
    ]
    return sum(name.strip("_") in PARTICIPLES for name in names)


def main() -> None:
    """Print a line for each package, or for each private function with one caller of those that are named."""
    if packages := sys.argv[1:]:
        sys.stdout.writelines(f"{line}\n" for source in sources_in(*packages) for line in list_single_callers(source))
        return
    table = Table(title=f"Goals: {MOST_SINGLE_CALLERS} % and {MOST_PARTICIPLES} per 1,000 lines at most")
    for name in ("package", "lines", "functions", "private, one caller", "participles per 1,000 lines"):
        table.add_column(name, justify="left" if name == "package" else "right")
    for package in PACKAGES:
        counts = count(package)
        share = 100 * counts.single_callers / max(1, counts.functions)
        rate = 1000 * counts.participles / max(1, counts.lines)
        table.add_row(package, f"{counts.lines:,}", f"{counts.functions:,}", f"{share:.0f} %", f"{rate:.1f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
