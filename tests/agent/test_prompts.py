"""The texts for people and models: every key is known, and a file that lacks one stops the start."""

from pathlib import Path
from shutil import copytree

import pytest

from agent.prompts import FOLDER, load_prompts, prompts
from shared.errors import ConfigurationError


def test_every_text_is_there() -> None:
    assert prompts().persona.system
    assert "{steps}" in prompts().turn.limit_reached


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda text: text.replace("no_text:", "no_texts:"), "turn.no_text"),
        (lambda text: text + "\nsurprise: hello\n", "turn.surprise"),
        (lambda text: text.replace('no_text: "(no text)"', "no_text: ''"), "turn.no_text"),
    ],
)
def test_a_wrong_key_stops_the_start_and_is_named(tmp_path: Path, change, named: str) -> None:  # type: ignore[no-untyped-def]  # pytest gives what stands above
    folder = copytree(FOLDER, tmp_path / "prompts")
    turn = folder / "turn.yaml"
    turn.write_text(change(turn.read_text("utf-8")), "utf-8")

    with pytest.raises(ConfigurationError, match=named):
        load_prompts(folder)
