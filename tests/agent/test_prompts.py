"""The texts for people and models: every key is known, and a file that lacks one stops the start."""

import ast
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from string import Formatter

import pytest
from msgspec.structs import asdict

from agent.prompts import FOLDER, load_prompts, prompts
from shared.errors import ConfigurationError
from tests.support.source_tree import line_of, sources_in


def test_every_text_is_there() -> None:
    assert prompts().persona.system
    assert "{steps}" in prompts().turn.limit_reached
    texts = [text for section in asdict(prompts()).values() for text in asdict(section).values()]
    assert texts == [text.strip() for text in texts]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('no_text: "(no text)"\n', ""), "`no_text`.*turn"),
        (lambda text: text + "\nsurprise: hello\n", "`surprise`.*turn"),
        (lambda text: text.replace('no_text: "(no text)"', "no_text: ''"), "turn.no_text"),
    ],
)
def test_a_wrong_key_stops_the_start_and_is_named(tmp_path: Path, change: Callable[[str], str], message: str) -> None:
    folder = copytree(FOLDER, tmp_path / "prompts")
    turn = folder / "turn.yaml"
    turn.write_text(change(turn.read_text("utf-8")), "utf-8")

    with pytest.raises(ConfigurationError, match=message):
        load_prompts(folder)


def test_a_text_is_given_what_it_has_places_for() -> None:
    wrong = [
        f"{source.path}:{line_of(node)}: {section}.{key} has places for {sorted(places)}, and is given {sorted(names)}"
        for source in sources_in("adapters", "agent")
        for node in source.nodes()
        if (entry := named_text(node)) is not None
        for section, key, names in [entry]
        if (places := places_of(getattr(getattr(prompts(), section), key))) != names
    ]

    assert wrong == []


def named_text(node: ast.AST) -> tuple[str, str, set[str]] | None:
    """Return section, key and keywords of `prompts().section.key.format(…)`."""
    match node:
        case ast.Call(
            func=ast.Attribute(
                attr="format",
                value=ast.Attribute(
                    attr=key,
                    value=ast.Attribute(attr=section, value=ast.Call(func=ast.Name(id="prompts"))),
                ),
            ),
            keywords=keywords,
        ):
            return section, key, {str(keyword.arg) for keyword in keywords}
    return None


def places_of(text: str) -> set[str]:
    return {name.partition("[")[0] for _, name, _, _ in Formatter().parse(text) if name}
