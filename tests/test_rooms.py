"""How large packages, parameter lists and classes may be, and which packages may be removed with one line.

Which package may import which stands in `pyproject.toml`; `make lint` checks it. The lists of exceptions here only get
shorter: an entry that is no exception any more fails.
"""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.imports import Import, find_circle, imports, is_within
from tests.support.source_tree import ROOT, FunctionNode, Source, dotted, sources_in
from tests.test_style import agree

PROGRAM = ("adapters", "agent", "migrations", "modules", "shared")
MOST_FILES, MOST_PARAMETERS, MOST_FIELDS, MOST_POSITIONAL = 12, 6, 10, 3

# Folders of like things side by side.
UNLIMITED_FOLDERS = ("adapters/cli", "agent/commands", "agent/commands/panels", "migrations/versions")
LARGE_FOLDERS: set[str] = set()

# An option of a command line is a parameter; so is a mark that module authors set by its name.
UNLIMITED_FUNCTIONS = (
    "adapters/cli/dry_run.py:dry_run",
    "adapters/cli/personas.py:create_persona",
    "adapters/cli/setup/wizard.py:set_up",
    "shared/tools.py:tool",
)
LONG_PARAMETER_LISTS: set[str] = set()

# Lists of texts, and the columns of a row: what makes them long is their content.
UNLIMITED_CLASSES = (
    "agent/tools/mcp/connections.py:Server",
    "agent/people/participants.py:ResolvedPersona",
    "agent/prompts.py:BudgetTexts",
    "agent/prompts.py:ConfirmationTexts",
    "agent/prompts.py:DelegationTexts",
    "agent/prompts.py:Prompts",
    "agent/prompts.py:TurnTexts",
)
LARGE_CLASSES: set[str] = set()

# Calls of our own functions with more positional arguments than three: those left take any number of them.
LONG_CALLS = {"adapters": 3, "agent": 1, "modules": 0, "shared": 0}

# The imports that close a circle of files.
CLOSING_IMPORTS: set[Import] = set()

# What may be removed together, and the places where it is registered: with them it is gone.
OPTIONAL: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("agent.turn.planner",): ("adapters.cli.compose",),
    ("agent.agents.delegation", "agent.agents.a2a", "adapters.a2a"): ("adapters.cli.compose",),
    ("agent.llm.scripted",): ("agent.llm.registry",),
    ("agent.llm.text_protocols",): ("agent.llm.registry",),
    ("agent.llm.offline",): ("agent.llm.registry",),
}
STRAY_IMPORTS: set[Import] = set()


def test_a_package_holds_few_files() -> None:
    sizes: dict[str, int] = {}
    for source in sources_in(*PROGRAM):
        folder = source.path.rpartition("/")[0]
        sizes[folder] = sizes.get(folder, 0) + 1
    large = {folder for folder, count in sizes.items() if count > MOST_FILES and folder not in UNLIMITED_FOLDERS}

    agree(compare(large, LARGE_FOLDERS, f"has more than {MOST_FILES} files"))


def test_every_package_says_what_lives_in_it() -> None:
    folders = {source.path.rpartition("/")[0] for source in sources_in(*PROGRAM)} - {"migrations/versions"}
    inits = [ROOT / folder / "__init__.py" for folder in sorted(folders)]

    agree(f"{path.relative_to(ROOT)}: a docstring says what lives here" for path in inits if not describes(path))


def describes(path: Path) -> bool:
    return path.is_file() and bool(ast.get_docstring(ast.parse(path.read_text("utf-8"))))


def test_parameter_lists_are_short() -> None:
    long = {
        f"{source.path}:{node.name}"
        for source in sources_in(*PROGRAM)
        for node in source.functions()
        if len(parameters(node)) > MOST_PARAMETERS and not is_tool(node)
    }

    agree(compare(long - set(UNLIMITED_FUNCTIONS), LONG_PARAMETER_LISTS, f"has more than {MOST_PARAMETERS} parameters"))


def is_tool(node: FunctionNode) -> bool:
    """Tell whether the signature is a schema for models, who name all arguments."""
    return any(
        isinstance(decorator, ast.Call) and dotted(decorator.func) == "tool" for decorator in node.decorator_list
    )


def parameters(node: FunctionNode) -> list[str]:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [argument.arg for argument in arguments if argument.arg not in {"self", "cls"}]


def test_classes_of_the_agent_have_few_fields() -> None:
    large = {
        f"{source.path}:{node.name}"
        for source in sources_in("agent")
        for node in source.nodes()
        if isinstance(node, ast.ClassDef) and len(set(fields(node))) > MOST_FIELDS
    }

    agree(compare(large - set(UNLIMITED_CLASSES), LARGE_CLASSES, f"has more than {MOST_FIELDS} fields"))


def fields(node: ast.ClassDef) -> Iterator[str]:
    """Yield the fields of a dataclass, and what `__init__` assigns."""
    is_dataclass = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    is_struct = any(ast.unparse(base) == "Struct" for base in node.bases)
    for part in node.body:
        if (is_struct or is_dataclass) and isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            yield part.target.id
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            attributes = (expression for expression in ast.walk(part) if isinstance(expression, ast.Attribute))
            yield from (
                attribute.attr
                for attribute in attributes
                if isinstance(attribute.ctx, ast.Store) and dotted(attribute.value) == "self"
            )


@pytest.mark.parametrize("package", LONG_CALLS)
def test_calls_name_their_arguments(package: str) -> None:
    calls = [place for source in sources_in(package) for place in long_calls(source)]

    if len(calls) > LONG_CALLS[package]:
        agree(f"{place}: more than {MOST_POSITIONAL} positional arguments" for place in calls)


def long_calls(source: Source) -> Iterator[str]:
    """Yield the calls of functions and classes of ours, as far as one file shows whose they are."""
    ours, methods = set(), set()
    for node in source.nodes():
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PROGRAM:
            ours |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, FunctionNode | ast.ClassDef):
            ours.add(node.name)
            methods.add(f"self.{node.name}")
    for node in source.nodes():
        if isinstance(node, ast.Call) and len(node.args) > MOST_POSITIONAL:
            name = dotted(node.func)
            if name in methods or name.partition(".")[0] in ours:
                yield f"{source.path}:{node.lineno}"


def test_files_do_not_import_each_other_in_a_circle() -> None:
    circle = find_circle(imports() - CLOSING_IMPORTS)
    closing = CLOSING_IMPORTS & imports()
    stale = CLOSING_IMPORTS - {edge for edge in closing if find_circle(imports() - closing | {edge})}

    assert circle == []
    assert stale == set(), "these close no circle any more: take them from the list"


@pytest.mark.parametrize("packages", OPTIONAL)
def test_an_optional_part_is_imported_in_one_place(packages: tuple[str, ...]) -> None:
    edges = {
        (importer, imported)
        for importer, imported in imports()
        if is_within(imported, packages) and not is_within(importer, packages + OPTIONAL[packages])
    }
    exceptions = {edge for edge in STRAY_IMPORTS if is_within(edge[1], packages)}

    agree(compare(map(" -> ".join, edges), [" -> ".join(edge) for edge in exceptions], "leads into an optional part"))


def compare(violations: Iterable[str], exceptions: Collection[str], rule: str) -> list[str]:
    """Return one complaint for each that is no exception, and one for each exception that is none any more."""
    violations = set(violations)
    new = [f"{exception} {rule}" for exception in sorted(violations - set(exceptions))]
    return new + [
        f"{exception} is no exception any more: take it from the list"
        for exception in sorted(set(exceptions) - violations)
    ]
