"""The contributor's door: hooks, forms, the container and the check name what exists."""

import json
import re
import shlex
import tomllib
from typing import Any

import pytest
import yaml

from tests.support.source_tree import ROOT

TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
FORMS = sorted(path.name for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")


def read_yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def test_each_hook_runs_a_program_of_the_environment_and_fetches_nothing() -> None:
    (repository,) = read_yaml(".pre-commit-config.yaml")["repos"]

    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        assert (ROOT / shlex.split(hook["entry"])[0]).is_file()


@pytest.mark.parametrize("name", FORMS)
def test_each_issue_form_is_one_that_the_host_accepts(name: str) -> None:
    form = read_yaml(f".github/ISSUE_TEMPLATE/{name}")

    assert form["name"]
    assert form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in fields} <= {"textarea", "input", "dropdown", "checkboxes"}
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)


def test_the_check_of_a_change_runs_what_one_runs_at_home() -> None:
    workflow = read_yaml(".github/workflows/check.yml")
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = [words for step in steps if (words := shlex.split(step.get("run", "")))]

    assert [".ci/run"] in commands
    assert {word for words in commands if words[0] == "make" for word in words[1:]} <= TARGETS
    assert workflow["permissions"] == {"contents": "read"}


def test_the_container_for_editors_makes_the_environment_of_the_tests() -> None:
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text("utf-8"))

    program, target = shlex.split(container["postCreateCommand"])
    assert program == "make"
    assert target in TARGETS
    assert container["image"].startswith("python:3.11")


def test_editors_break_lines_where_the_formatter_does() -> None:
    length = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]["line-length"]

    assert f"max_line_length = {length}" in (ROOT / ".editorconfig").read_text("utf-8")
