"""A command that a message or a page names is there, with the options that it names."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from typer.core import TyperGroup

from adapters.cli.registry import Registry, load
from tests.support.documents import documents
from tests.support.source_tree import ROOT, sources_in

# In backquotes, behind a colon as in "run: parley migrate", or at the beginning of a line of a shell.
MENTION = re.compile(
    r"(?:`(?:[A-Z_]+=\S+ )*|: |^ {4}|^ *\$ )(?:\.venv/bin/)?parley ((?:[a-z][\w-]*)(?:[ \t]+[^\s`;|<>]+)*)",
    re.MULTILINE,
)
SHELL_LINE = re.compile(r"^(?:.*\| )?(?:[A-Z_]+=\S+ )*parley ([a-z][^#\n|<>]*)", re.MULTILINE)
OPTION = re.compile(r"--?[a-z][\w-]*")
GROUPS_OF_WORDS = ("adapters", "agent", "modules", "shared")


def list_texts() -> Iterator[tuple[str, str]]:
    """Yield the strings of the program and its SQL, with a letter for what is filled in, and where they stand."""
    for source in sources_in(*GROUPS_OF_WORDS):
        parts = {id(part) for node in source.nodes() if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in source.nodes():
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
                yield f"{source.path}:{node.lineno}", node.value
            elif isinstance(node, ast.JoinedStr):
                texts = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
                yield f"{source.path}:{node.lineno}", "".join(map(str, texts))
    for path in (ROOT / "migrations").rglob("*.sql"):
        yield str(path.relative_to(ROOT)), path.read_text("utf-8")


def list_mentions() -> Iterator[tuple[str, str]]:
    for place, text in list_texts():
        yield from ((place, match[1]) for match in MENTION.finditer(text))
    for page in documents():
        yield from ((page.path.name, match[1]) for match in MENTION.finditer(page.text))
        for language in ("sh", "bash"):
            for block in page.blocks(language):
                yield from ((page.path.name, match[1]) for match in SHELL_LINE.finditer(block.text))


@cache
def list_options(*names: str) -> frozenset[str] | None:
    """Return the options of a command; None if there is none of this name."""
    if names[0] not in Registry(name="parley").list_commands(None):  # type: ignore[arg-type]  # it needs no context
        return None
    command = load(names[0])
    if isinstance(command, TyperGroup) and len(names) > 1 and names[1] in command.commands:
        command = command.commands[names[1]]
    elif isinstance(command, TyperGroup) and len(names) > 1 and names[1].isalpha() and names[1].islower():
        return None
    return frozenset(
        {option for param in command.params for option in (*param.opts, *param.secondary_opts)} | {"--help"}
    )


def find_fault(mention: str) -> str | None:
    """Return what of a command that is named does not exist."""
    name, *words = mention.split()
    # What stands behind belongs to psql.
    options = [] if name == "psql" else [word.partition("=")[0].rstrip(".,:)") for word in words if OPTION.match(word)]
    known = list_options(name, *words[:1])
    if known is None:
        return f"parley {' '.join([name, *words[:1]])}"
    return next((f"parley {name} {option}" for option in options if option not in known), None)


def test_the_commands_that_messages_and_pages_name_exist_with_their_options() -> None:
    mentions = list(list_mentions())
    faults = [f"{place}: there is no {fault}" for place, mention in mentions if (fault := find_fault(mention))]

    assert len(mentions) > 150
    assert faults == []


def test_a_command_that_is_not_there_is_noticed() -> None:
    assert find_fault("doctor --call") is None
    assert find_fault("user promote X owner --new") is None
    assert find_fault("docter") == "parley docter"
    assert find_fault("user promte X") == "parley user promte"
    assert find_fault("doctor --cal") == "parley doctor --cal"
