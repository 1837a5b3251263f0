"""Modules that do not belong to the program: in a folder of the operator's, and in an installed package."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.cli.shell import Shell
from tests.support.documents import document
from tests.support.source_tree import ROOT

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

    lines = shell.says("tools", "dice", PYTHONPATH=str(installed)).splitlines()

    columns = lines[-1].split(maxsplit=6)
    assert columns[:5] == ["dice.roll", "parley-dice", "1.0", "guest", "on"]
    assert 20 < int(columns[5]) < 200
    assert columns[6] == "Roll `count` dice of `sides` sides."

    output = shell.run("chat", stdin="roll\n", DEBUG_MOCK_RESPONSES=script, PYTHONPATH=str(installed))
    assert "The dice have spoken." in output.out, output.err
    assert '{"rolled": [' in explained(shell)


def test_a_folder_that_the_setting_names_holds_modules(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "dice").mkdir()
    (tmp_path / "dice" / "__init__.py").write_text(DICE, "utf-8")

    listing = shell.says("tools", MODULES_PATH=str(tmp_path))

    assert any(line.split()[:2] == ["dice.roll", str(tmp_path)] for line in listing.splitlines())
    assert "calculator.calculate" in listing


def test_a_package_with_the_name_of_another_module_is_off_and_says_so(
    shell: Shell, installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "games" / "dice").mkdir(parents=True)
    (tmp_path / "games" / "dice" / "__init__.py").write_text(DICE, "utf-8")

    result = shell.run("tools", "dice", MODULES_PATH=str(tmp_path / "games"), PYTHONPATH=str(installed))

    assert result.code == 1
    assert str(tmp_path / "games") in result.out
    assert "the module dice (parley-dice 1.0) is off" in result.err
    assert f"there is already a module dice ({tmp_path / 'games'})" in result.err


def test_a_wrong_folder_stops_the_start_with_one_line(shell: Shell) -> None:
    result = shell.run("run", MODULES_PATH="/nowhere")

    assert result.code == 2
    assert result.err == (
        "parley: MODULES_PATH is wrong: there is no folder /nowhere that can be read. "
        "Correct it in the environment or in .env.\n"
    )


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    """The module of docs/examples/diary, in a folder of the operator's."""
    folder = tmp_path / "own" / "diary"
    shutil.copytree(ROOT / "docs/examples/diary", folder)
    return folder


def test_a_module_of_the_operator_brings_its_table(fresh: Shell, diary: Path) -> None:
    call = {"name": "diary.write", "arguments": {"entry": "It rained."}}
    script = json.dumps([{"content": "", "tool_calls": [call]}, "Written."])
    own = str(diary.parent)

    assert "modules/diary are made" in fresh.says("migrate", MODULES_PATH=own)
    assert "nothing to change" in fresh.says("migrate", MODULES_PATH=own)
    output = fresh.run("chat", stdin="note that\n", DEBUG_MOCK_RESPONSES=script, MODULES_PATH=own)

    assert "Written." in output.out, output.err
    assert '{"entries": ["It rained."]}' in explained(fresh)
    assert fresh.says("psql", "-At", "-c", "SELECT entry FROM diary_entries").strip() == "It rained."
    # The next version of the module.
    (diary / "schema" / "0002_moods.sql").write_text("ALTER TABLE diary_entries ADD COLUMN mood text;", "utf-8")
    fresh.says("migrate", MODULES_PATH=own)
    assert fresh.says("psql", "-At", "-c", "SELECT mood IS NULL FROM diary_entries").strip() == "t"


def test_an_installed_package_brings_its_table(shell: Shell, installed: Path) -> None:
    schema = installed / "parley_dice" / "schema"
    schema.mkdir()
    (schema / "0001_tables.sql").write_text("CREATE TABLE dice_rolls (rolled int);", "utf-8")

    assert "the tables of modules/dice are made" in shell.says("migrate", PYTHONPATH=str(installed))
    assert shell.says("psql", "-At", "-c", "SELECT count(*) FROM dice_rolls").strip() == "0"


def test_a_wrong_table_of_a_module_stops_the_start_with_one_line(shell: Shell, diary: Path) -> None:
    (diary / "schema" / "0001_tables.sql").write_text("SELECT 1;", "utf-8")
    (diary / "schema" / "0003_wrong.sql").write_text("CREATE TABLE rained (id int); CREATE TABBLE;", "utf-8")

    outcome = shell.run("migrate", MODULES_PATH=str(diary.parent))

    assert outcome.code == 2
    assert outcome.err.startswith("parley: The tables of modules/diary can't be made: 0003_wrong.sql: syntax error")
    assert shell.says("psql", "-At", "-c", "SELECT to_regclass('rained') IS NULL").strip() == "t"


def explained(shell: Shell) -> str:
    """Return what `parley explain` tells of the last turn."""
    return shell.says("explain", shell.says("psql", "-At", "-c", "SELECT max(id) FROM turns").strip())
