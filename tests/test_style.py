"""The project's coding rules, checked for every Python file; each complaint has file, line and rule."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import pytest

from tests.support.source_tree import (
    Source,
    depth,
    docstrings,
    dotted,
    is_broad,
    is_environment,
    line_of,
    module_names,
    sources,
    sources_in,
    words,
)

OURS = frozenset({"adapters", "agent", "migrations", "modules", "shared", "tests"})
# Only the owner imports a library, so that the library can be replaced in one place.
OWNERS: Mapping[str, tuple[str, ...]] = {
    "litellm": ("shared/http/litellm.py", "shared/memory/embeddings.py"),
    "minio": ("shared/files/stores/s3.py",),
    "discord": ("adapters/discord.py", "adapters/discord/"),
    "nats": ("agent/live/nats_bus.py",),
    "kopf": ("adapters/kubernetes/operator.py",),
    "slack_bolt": ("adapters/slack.py", "adapters/slack/"),
    "slack_sdk": ("adapters/slack.py", "adapters/slack/"),
}
# agent/llm/providers/catalogue.py: litellm raises bare exceptions for models whose price it does not know.
BROAD_EXCEPT_OWNERS = (
    "agent/queue/jobs.py",
    "agent/queue/worker.py",
    "agent/tools/toolbox.py",
    "agent/tools/modules.py",
    "agent/llm/providers/catalogue.py",
    "adapters/base.py",
    "shared/sandbox/program.py",
)
OUTWARD_CLIENTS = (
    "aiohttp",
    "http.client",
    "httpx",
    "httpx2",
    "requests",
    "socket",
    "urllib.request",
    "urllib3",
    "websockets",
)
CLOCKS = (".datetime.now", ".datetime.utcnow", ".datetime.today", ".date.today", ".time.time", ".time.time_ns")

LONGEST_FUNCTION = 50
LONGEST_FILE = 400
DEEPEST_NESTING = 3

UNUSED_WORDS = frozenset(
    {"manager", "service", "handler", "helper", "util", "utils", "common", "data", "info", "process", "do"}
)
# The established name for these values.
ALLOWED_NAMES = frozenset({"DeliveryInfo"})
# Names that a library looks up on our classes.
LIBRARY_HOOKS = frozenset(
    {"do_DELETE", "do_GET", "do_HEAD", "do_POST", "do_PUT", "process_bind_param", "process_result_value"}
    | {"_process_streaming_request", "data_received", "handle_data"}
)

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")
LEFT_OUT = frozenset({"skip", "skipif", "xfail", "importorskip", "skipTest", "skipIf", "skipUnless", "expectedFailure"})


def agree(complaints: Iterable[str]) -> None:
    """Fail with every complaint on a line of its own."""
    if report := "\n".join(complaints):
        pytest.fail(report, pytrace=False)


def complaints_of(rule: str, places: Iterator[tuple[Source, int]]) -> list[str]:
    """Return one `file:line: rule` for each place."""
    return [f"{source.path}:{line}: {rule}" for source, line in places]


def test_the_agent_names_no_module() -> None:
    names = "|".join(sorted(module_names())) or "(?!)"
    pattern = re.compile(rf"^(modules\.)?({names})((\.|__)\w+)?$")
    complaints = [
        f"{source.path}:{node.lineno}: the agent finds modules by walking the folder and may not name {node.value!r}"
        for source in sources_in("agent")
        for node in source.nodes()
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and pattern.match(node.value)
        if id(node) not in docstrings(source.tree)
    ]

    agree(complaints)


def test_a_migration_imports_nothing_of_ours() -> None:
    complaints = [
        f"{source.path}:{imported.line}: a migration may not import {imported.name}, which changes after it"
        for source in sources_in("migrations")
        if source.path.startswith("migrations/versions/")
        for imported in source.imports()
        if imported.top in OURS
    ]

    agree(complaints)


def test_an_outside_library_is_imported_by_its_owner_alone() -> None:
    complaints = [
        f"{source.path}:{imported.line}: {library} belongs to {' and '.join(owners)}"
        for source in sources_in("adapters", "agent", "migrations", "modules", "shared")
        for imported in source.imports()
        for library, owners in OWNERS.items()
        if imported.is_within(library) and not source.path.startswith(owners)
    ]

    agree(complaints)


def test_private_names_of_libraries_stand_where_there_is_no_public_one() -> None:
    sources = list(sources_in("adapters", "agent", "migrations", "modules", "shared", "tests"))
    imports = {
        source.path
        for source in sources
        for imported in source.imports()
        if imported.top not in OURS and re.search(r"\._[a-z]", imported.name)
    }
    # `self._client._connection`, of a client that is not ours.
    connections = {
        source.path
        for source in sources_in("adapters")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and node.attr in {"_connection", "_state", "_http"}
        if not (isinstance(node.value, ast.Name) and node.value.id == "self")
    }

    assert imports == {"adapters/cli/clicks.py"}
    assert connections == {"adapters/discord/events/catch_up.py"}


def test_adapters_store_messages_through_the_inbox_of_their_process() -> None:
    places = (
        (source, node.lineno)
        for source in sources_in("adapters")
        for node in source.nodes()
        if isinstance(node, ast.ImportFrom) and node.module == "agent.queue.inbox"
        if "accept" in {name.name for name in node.names}
    )

    agree(complaints_of("app.inbox stores the messages of a burst together; the function `accept` stores one", places))


def commits(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "commit"


def reads_time(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and f".{dotted(node.func)}".endswith(CLOCKS)


@pytest.mark.parametrize(
    ("place", "what", "stands"),
    [
        ("shared/settings/", "the environment is read", is_environment),
        ("shared/db/database.py", "commit is called", commits),
        ("shared/clock.py", "the time is read", reads_time),
    ],
)
def test_some_things_stand_in_one_place(place: str, what: str, stands: Callable[[ast.AST], bool]) -> None:
    places = (
        (source, line_of(node))
        for source in sources()
        if source.package != "tests" and not source.path.startswith(place)
        for node in source.nodes()
        if stands(node)
    )

    agree(complaints_of(f"{what} in {place} alone", places))


def test_broad_excepts_are_in_few_files() -> None:
    places = (
        (source, line_of(node))
        for source in sources()
        if source.path not in BROAD_EXCEPT_OWNERS
        for node in source.nodes()
        if is_broad(node)
    )

    agree(complaints_of(f"a broad except belongs in {', '.join(BROAD_EXCEPT_OWNERS)}", places))


def test_modules_reach_outward_through_the_one_client() -> None:
    complaints = [
        f"{source.path}:{imported.line}: a module reaches outward through context.http, not {imported.name}"
        for source in sources_in("modules")
        for imported in source.imports()
        if any(imported.is_within(client) for client in OUTWARD_CLIENTS)
    ]

    agree(complaints)


def test_functions_are_short() -> None:
    complaints = [
        f"{source.path}:{node.lineno}: {node.name} has {length} lines, more than {LONGEST_FUNCTION}"
        for source in sources()
        if source.package != "migrations"
        for node in source.functions()
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    ]

    agree(complaints)


def test_functions_are_flat() -> None:
    complaints = [
        f"{source.path}:{node.lineno}: {node.name} is {blocks} blocks deep, more than {DEEPEST_NESTING}"
        for source in sources()
        for node in source.functions()
        if (blocks := depth(node)) > DEEPEST_NESTING
    ]

    agree(complaints)


def test_files_are_short() -> None:
    complaints = [
        f"{source.path}:{length}: the file has {length} lines, more than {LONGEST_FILE}"
        for source in sources()
        if source.package != "migrations"
        if (length := len(source.text.splitlines())) > LONGEST_FILE
    ]

    agree(complaints)


def test_nothing_is_left_unfinished() -> None:
    complaints = [
        f"{source.path}:{number}: {match[0]} is left"
        for source in sources()
        if source.path != "tests/test_style.py"
        for number, line in enumerate(source.text.splitlines(), 1)
        if (match := UNFINISHED.search(line))
    ]

    agree(complaints)


def test_no_test_is_skipped() -> None:
    places = (
        (source, node.lineno)
        for source in sources_in("tests")
        for node in source.nodes()
        if isinstance(node, ast.Attribute) and node.attr in LEFT_OUT
        if dotted(node).startswith(("pytest.", "unittest.", "self."))
    )

    agree(complaints_of("a test runs, or it is removed", places))


def test_tests_patch_nothing() -> None:
    imported = (
        (source, imported.line)
        for source in sources_in("tests")
        for imported in source.imports()
        if imported.is_within("unittest.mock") or imported.is_within("mock")
    )
    asked_for = (
        (source, node.lineno)
        for source in sources_in("tests")
        for node in source.nodes()
        if isinstance(node, ast.arg) and node.arg in {"monkeypatch", "mocker"}
    )

    agree(complaints_of("tests use hand-made fakes and patch nothing", imported))
    agree(complaints_of("tests use hand-made fakes and patch nothing", asked_for))


def test_names_say_what_a_thing_is() -> None:
    complaints = [
        f"{source.path}:{node.lineno}: {node.name} uses a word that says nothing: {', '.join(sorted(empty))}"
        for source in sources()
        for node in source.nodes()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        # A test's name is a sentence, and may use any word.
        if not node.name.startswith("test_") and node.name not in LIBRARY_HOOKS | ALLOWED_NAMES
        if (empty := words(node.name) & UNUSED_WORDS)
    ]
    files = [
        f"{source.path}:1: the file's name uses a word that says nothing: {', '.join(sorted(empty))}"
        for source in sources()
        if not source.path.startswith("tests/")
        if (name := source.path.rsplit("/", 1)[-1].removesuffix(".py")) not in ALLOWED_NAMES
        if (empty := words(name) & UNUSED_WORDS)
    ]

    agree(complaints + files)
