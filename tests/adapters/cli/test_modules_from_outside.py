"""Modules that do not belong to the program: in a folder of the operator's, and in an installed package."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.cli.shell import Shell
from tests.support.documents import document

PAGE = document("docs/modules.md")
DICE = PAGE.blocks("python")[0].text


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The package of docs/modules.md, installed by pip into a folder of its own, without a network."""
    project, target = tmp_path / "project", tmp_path / "site"
    (project / "parley_dice").mkdir(parents=True)
    (project / "pyproject.toml").write_text(PAGE.blocks("toml")[0].text, "utf-8")
    (project / "parley_dice" / "__init__.py").write_text(DICE, "utf-8")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation")
    subprocess.run([*pip, "--target", target, project], check=True, timeout=100)
    return target


def test_an_installed_package_is_a_module_whose_tools_run(shell: Shell, installed: Path) -> None:
    call = {"name": "dice.roll", "arguments": {"sides": 2}}
    script = json.dumps([{"content": "", "tool_calls": [call]}, "The dice have spoken."])

    listed = shell.says("tools", "dice", PYTHONPATH=str(installed)).splitlines()

    columns = listed[-1].split(maxsplit=6)
    assert columns[:5] == ["dice.roll", "parley-dice", "1.0", "guest", "on"]
    assert 20 < int(columns[5]) < 200
    assert columns[6] == "Roll `count` dice of `sides` sides."

    output = shell.run("chat", stdin="roll\n", DEBUG_MOCK_RESPONSES=script, PYTHONPATH=str(installed))
    assert "The dice have spoken." in output.out, output.err
    assert '{"rolled": [' in shell.says("explain", shell.says("psql", "-At", "-c", "SELECT max(id) FROM turns").strip())


def test_a_folder_that_the_setting_names_holds_modules(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "dice").mkdir()
    (tmp_path / "dice" / "__init__.py").write_text(DICE, "utf-8")

    listed = shell.says("tools", MODULES_PATH=str(tmp_path))

    assert any(line.split()[:2] == ["dice.roll", str(tmp_path)] for line in listed.splitlines())
    assert "calculator.calculate" in listed


def test_a_package_with_the_name_of_another_module_is_off_and_says_so(
    shell: Shell, installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "games" / "dice").mkdir(parents=True)
    (tmp_path / "games" / "dice" / "__init__.py").write_text(DICE, "utf-8")

    listed = shell.run("tools", "dice", MODULES_PATH=str(tmp_path / "games"), PYTHONPATH=str(installed))

    assert listed.code == 1
    assert str(tmp_path / "games") in listed.out
    assert "the module dice (parley-dice 1.0) is off" in listed.err
    assert f"there is already a module dice ({tmp_path / 'games'})" in listed.err


def test_a_wrong_folder_stops_the_start_with_one_line(shell: Shell) -> None:
    refused = shell.run("run", MODULES_PATH="/nowhere")

    assert refused.code == 2
    assert refused.err == (
        "parley: MODULES_PATH is wrong: there is no folder /nowhere that can be read. "
        "Correct it in the environment or in .env.\n"
    )
