"""The project's Python files, parsed once, for tests of the code itself."""

import ast
import gc
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("adapters", "agent", "migrations", "modules", "shared", "tests")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Import:
    """One name that a file imports: `from agent import inbox` names `agent.queue.inbox`."""

    name: str
    line: int

    @property
    def top(self) -> str:
        """The package that the name begins with."""
        return self.name.partition(".")[0]

    def is_within(self, package: str) -> bool:
        """Tell whether the name is this package or something in it."""
        return self.name == package or self.name.startswith(f"{package}.")


@dataclass(frozen=True)
class Source:
    """One Python file."""

    path: str
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """The top-level folder that the file is in."""
        return self.path.partition("/")[0]

    def nodes(self) -> Sequence[ast.AST]:
        """Return every node of the file."""
        return self._nodes

    @cached_property
    def _nodes(self) -> tuple[ast.AST, ...]:
        # Each rule goes through all nodes of all files, and to walk a tree takes far longer than that. `ast.walk` looks
        # each field up by its name, and takes twice as long.
        nodes: list[ast.AST] = [self.tree]
        for node in nodes:
            for value in vars(node).values():
                if isinstance(value, ast.AST):
                    nodes.append(value)
                elif isinstance(value, list):
                    nodes.extend(item for item in value if isinstance(item, ast.AST))
        return tuple(nodes)

    def imports(self) -> Iterator[Import]:
        """Yield what the file imports, relative imports made absolute."""
        for node in self.nodes():
            if isinstance(node, ast.Import):
                yield from (Import(alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                yield from (Import(f"{base}.{alias.name}", node.lineno) for alias in node.names)

    def functions(self) -> Iterator[FunctionNode]:
        """Yield every function and method, inner ones too."""
        yield from (node for node in self.nodes() if isinstance(node, FunctionNode))

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        folder = self.path.split("/")[: -node.level]
        return ".".join([*folder, *([node.module] if node.module else [])])


@cache
def sources() -> tuple[Source, ...]:
    """Return every Python file of the project, the tests included."""
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    # The trees are never garbage: to look for it again and again, and at the end, takes longer than to parse them.
    gc.disable()
    try:
        return tuple(_read(path) for path in paths)
    finally:
        gc.freeze()
        gc.enable()


def _read(path: Path) -> Source:
    text = path.read_text("utf-8")
    return Source(path.relative_to(ROOT).as_posix(), text, ast.parse(text, path))


def sources_in(*packages: str) -> Iterator[Source]:
    """Yield the files of these top-level folders."""
    yield from (source for source in sources() if source.package in packages)


def dotted(node: ast.AST) -> str:
    """Return `a.b.c` for such an expression, and nothing for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (prefix := dotted(node.value)):
        return f"{prefix}.{node.attr}"
    return ""


def line_of(node: ast.AST) -> int:
    """Return the line on which the node begins, or 0."""
    line: int = getattr(node, "lineno", 0)
    return line


def depth(node: ast.AST) -> int:
    """Return how many blocks are nested.

    An `elif` is no deeper than its `if`; an inner function counts by itself.
    """
    return max((_depth_of(child) for child in ast.iter_child_nodes(node)), default=0)


def _depth_of(child: ast.AST) -> int:
    if isinstance(child, SCOPES):
        return 0
    if not isinstance(child, BLOCKS):
        return depth(child)
    inner = depth(child)
    if isinstance(child, ast.If) and len(child.orelse) == 1 and isinstance(child.orelse[0], ast.If):
        # The parser nests an `elif` in its `if`; a reader sees them at one level.
        branches = max((_depth_of(part) for part in child.body), default=0)
        return max(1 + branches, _depth_of(child.orelse[0]))
    return 1 + inner


def words(identifier: str) -> set[str]:
    """Return the words that an identifier is made of, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", identifier)}


def docstrings(tree: ast.Module) -> set[int]:
    """Return the ids of the nodes that are docstrings."""
    owners = (node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | FunctionNode))
    firsts = (owner.body[0] for owner in owners if owner.body)
    return {
        id(first.value) for first in firsts if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    }


def is_environment(node: ast.AST) -> bool:
    """Tell whether this expression or import accesses the process's environment."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "os" and any(alias.name in {"environ", "getenv", "putenv"} for alias in node.names)
    return dotted(node) in {"os.environ", "os.environb", "os.getenv", "os.putenv"}


def is_broad(node: ast.AST) -> bool:
    """Tell whether this catches, or suppresses, every exception."""
    if isinstance(node, ast.ExceptHandler):
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        return any(kind is None or dotted(kind) in {"Exception", "BaseException"} for kind in caught)
    return (
        isinstance(node, ast.Call)
        and dotted(node.func).endswith("suppress")
        and any(dotted(kind) in {"Exception", "BaseException"} for kind in node.args)
    )


def module_names() -> frozenset[str]:
    return frozenset(path.parent.name for path in (ROOT / "modules").glob("*/__init__.py"))


def list_measuring_variables() -> dict[str, str]:
    """Return what `make coverage` has in the environment: processes with few variables are measured by it, too."""
    return {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
