"""The graph of the program's imports, those under TYPE_CHECKING and inside functions included."""

from functools import cache
from graphlib import CycleError, TopologicalSorter

import grimp

PROGRAM = ("adapters", "agent", "migrations", "modules", "shared")

Import = tuple[str, str]


@cache
def imports() -> frozenset[Import]:
    """Return each import of one file of ours by another: importer and imported."""
    graph = grimp.build_graph(*PROGRAM, exclude_type_checking_imports=False, cache_dir=None)
    return frozenset(
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    )


def is_within(module: str, packages: tuple[str, ...]) -> bool:
    """Return whether the module is one of these packages or lies in one."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def find_circle(edges: frozenset[Import]) -> list[str]:
    """Return the files of one circle of imports, each imported by the one before it; empty without a circle."""
    graph: dict[str, set[str]] = {}
    for importer, imported in edges:
        graph.setdefault(importer, set()).add(imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        files: list[str] = error.args[1]
        return files[::-1]
    return []
