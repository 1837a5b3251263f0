"""Packaging: dependencies, locks, the image, compose, the two commands."""

import importlib
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from adapters.cli.platforms import list_setting_names
from modules.code_executor.settings import CodeExecutorSettings
from modules.location.settings import LocationSettings
from shared.settings import SETTING_NAMES, load_settings
from tests.support.source_tree import PACKAGES, ROOT, sources_in

RUN_LOCK = "requirements.lock"
TEST_LOCK = "requirements-dev.lock"
EMBEDDINGS_LOCK = "requirements-embeddings.lock"
EXTRAS_LOCK = "requirements-extras.lock"
CODE_LOCK = "requirements-code.lock"
AGENTDOJO_LOCK = "requirements-agentdojo.lock"
CONFORMANCE_LOCK = "requirements-conformance.lock"
SBOM_LOCK = "requirements-sbom.lock"
INSTALLER_LOCK = "requirements-installer.lock"
SYNAPSE_LOCK = "requirements-synapse.lock"
LOCKS = (
    RUN_LOCK,
    TEST_LOCK,
    EMBEDDINGS_LOCK,
    EXTRAS_LOCK,
    CODE_LOCK,
    SBOM_LOCK,
    INSTALLER_LOCK,
    AGENTDOJO_LOCK,
    CONFORMANCE_LOCK,
    SYNAPSE_LOCK,
)
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
# Names that only docker compose reads; `.env` may contain them beside the settings.
FOR_COMPOSE = frozenset({"COMPOSE_PROFILES", "POSTGRES_PASSWORD"})


def pinned(lock: str) -> dict[str, tuple[Version, frozenset[str]]]:
    """Return name → (version, hashes) of every requirement of a lock."""
    text = (ROOT / lock).read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    return dict(entry(line) for line in lines)


def entry(line: str) -> tuple[str, tuple[Version, frozenset[str]]]:
    """Parse one line of a lock; anything except a pinned name with hashes is refused."""
    requirement = Requirement(line.partition(" --hash")[0])
    (pin,) = requirement.specifier
    assert pin.operator == "==", line
    return canonicalize_name(requirement.name), (
        Version(pin.version),
        frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", line)),
    )


def requirements_of(*groups: str) -> list[Requirement]:
    """Return the project's requirements with all extras, which the locks hold too, and these groups."""
    extras = PROJECT["project"]["optional-dependencies"].values()
    lines: list[str] = [*PROJECT["project"]["dependencies"], *(line for extra in extras for line in extra)]
    for group in groups:
        for line in PROJECT["dependency-groups"][group]:
            lines += PROJECT["dependency-groups"][line["include-group"]] if isinstance(line, dict) else [line]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_requirement_of_a_lock_has_a_version_and_a_hash(lock: str) -> None:
    without = [name for name, (_, hashes) in pinned(lock).items() if not hashes]

    assert pinned(lock)
    assert without == []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_address_and_no_folder_of_the_machine_it_was_made_on(lock: str) -> None:
    suspicious = re.compile(r"://| @ |--(extra-)?index|--find-links|--trusted|(^|[\s=])~?/\w")
    lines = [line for line in (ROOT / lock).read_text("utf-8").splitlines() if suspicious.search(line)]

    assert lines == []


def test_the_locks_hold_what_the_project_asks_for() -> None:
    for lock, groups in ((RUN_LOCK, ("build",)), (TEST_LOCK, ("build", "dev"))):
        pins = pinned(CODE_LOCK) | pinned(EMBEDDINGS_LOCK) | pinned(EXTRAS_LOCK) | pinned(lock)
        for requirement in requirements_of(*groups):
            version, _ = pins[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), f"{lock}: {requirement} is not met by {version}"


def test_the_tests_run_on_the_versions_that_the_program_runs_on() -> None:
    with_tests = pinned(TEST_LOCK)

    for lock in (RUN_LOCK, EMBEDDINGS_LOCK, EXTRAS_LOCK):
        assert {name: with_tests.get(name) for name in pinned(lock)} == pinned(lock)


def test_people_s_code_runs_on_the_versions_that_parley_has_too() -> None:
    ours, theirs = pinned(TEST_LOCK), pinned(CODE_LOCK)

    assert {"dill", "duckdb", "matplotlib", "numpy", "pandas"} <= theirs.keys()
    assert {name: ours[name] for name in theirs if name in ours} == {
        name: theirs[name] for name in theirs if name in ours
    }


def test_the_two_releases_with_stolen_code_cannot_be_installed() -> None:
    (litellm,) = (requirement for requirement in requirements_of() if requirement.name == "litellm")

    assert not litellm.specifier.contains("1.82.7")
    assert not litellm.specifier.contains("1.82.8")


@pytest.mark.parametrize(
    ("packages", "groups"),
    [
        (("adapters", "agent", "migrations", "modules", "shared"), ()),
        (("tests",), ("build", "dev", "agentdojo", "conformance")),
    ],
)
def test_every_import_is_a_requirement_in_pyproject(packages: tuple[str, ...], groups: tuple[str, ...]) -> None:
    distributions = importlib.metadata.packages_distributions()
    asked_for = {canonicalize_name(requirement.name) for requirement in requirements_of(*groups)}
    own = {*PACKAGES, *sys.stdlib_module_names}
    complaints = {
        f"{source.path}:{imported.line}: {imported.top}"
        for source in sources_in(*packages)
        for imported in source.imports()
        if imported.top not in own
        if not {canonicalize_name(name) for name in distributions.get(imported.top, [imported.top])} & asked_for
    }

    assert not complaints, "\n".join(sorted(complaints))


def test_the_command_can_be_started() -> None:
    module, _, function = PROJECT["project"]["scripts"]["parley"].partition(":")

    assert callable(getattr(importlib.import_module(module), function))


MAKE = (
    "run",
    "embeddings",
    "extras",
    "test",
    "lint",
    "bench",
    "slow",
    "soak",
    "coverage",
    "mutants",
    "reference",
    "site",
    "wheel",
    "sbom",
    "lock",
    "help",
)


def test_make_knows_every_command_of_the_readme() -> None:
    result = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    makefile = (ROOT / "Makefile").read_text("utf-8")

    for target in MAKE:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
        assert target == "help" or f"make {target} " in result


def test_the_check_of_a_change_is_make_test() -> None:
    check = ROOT / ".ci/run"

    assert os.access(check, os.X_OK)
    assert os.access(ROOT / ".ci/bootstrap", os.X_OK)
    assert "set -euo pipefail" in check.read_text("utf-8")
    assert "make test" in check.read_text("utf-8")


def test_an_old_python_is_refused_in_one_line(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" || exit 1\n')
    old.chmod(0o755)
    (tmp_path / ".ci").mkdir()
    for name in (".ci/bootstrap", RUN_LOCK, TEST_LOCK, "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())

    result = subprocess.run(
        ["bash", ".ci/bootstrap", "run"],
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHON": str(old)},
        capture_output=True,
        text=True,
    )

    assert result.returncode == 1
    assert result.stdout == ""
    assert "Python 3.11 or newer is needed" in result.stderr
    assert "3.9.2" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_what_was_interrupted_is_installed_anew_whatever_a_person_has_set_for_uv(tmp_path: Path) -> None:
    wheel, log = tmp_path / "uv-1-py3-none-any.whl", tmp_path / "log"
    with zipfile.ZipFile(wheel, "w") as archive:
        program = zipfile.ZipInfo("uv-1.data/scripts/uv")
        program.external_attr = 0o100755 << 16
        archive.writestr(program, f'#!/bin/sh\n{{ echo "$@"; env | grep ^UV_; }} >>{log}\n')
        archive.writestr("uv-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: uv\nVersion: 1\n")
        archive.writestr("uv-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("uv-1.dist-info/RECORD", "")
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci/bootstrap").write_bytes((ROOT / ".ci/bootstrap").read_bytes())
    for name in (".ci/code-environment", *(lock.name for lock in ROOT.glob("requirements*.lock"))):
        (tmp_path / name).touch()
    digest = sha256(wheel.read_bytes()).hexdigest()
    (tmp_path / "requirements-installer.lock").write_text(f"uv==1 --hash=sha256:{digest}\n")
    # Nothing that builds it is installed: it ends behind the packages.
    (tmp_path / "pyproject.toml").write_text('[build-system]\nrequires = []\nbuild-backend = "none"\n')
    settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    settings |= {"UV_LINK_MODE": "symlink", "UV_WORKING_DIR": "/", "UV_CACHE_DIR": str(tmp_path / "cache")}

    def install() -> list[str]:
        log.unlink(missing_ok=True)
        result = subprocess.run(
            ["bash", ".ci/bootstrap", "run"], check=False, cwd=tmp_path, env=os.environ | settings, capture_output=True
        )
        assert b"Parley itself could not be installed" in result.stderr
        return log.read_text().splitlines()[1:]

    assert sorted(install()) == [f"UV_CACHE_DIR={tmp_path}/cache", "UV_NO_CONFIG=1"]
    (packages,) = tmp_path.glob(".venv/lib/python*/site-packages")
    (packages / "half-1.dist-info").mkdir()
    (packages / "half-1.dist-info/RECORD").touch()
    before = {path.name for path in packages.iterdir()}
    install()
    assert before - {path.name for path in packages.iterdir()} == {"half-1.dist-info"}


def test_every_line_of_the_example_is_a_setting(tmp_path: Path) -> None:
    before = dict(os.environ)
    lines = (ROOT / ".env.example").read_text("utf-8").splitlines()
    names = {match[1] for line in lines if (match := re.match(r"#?([A-Z][A-Z0-9_]+)=", line))}
    filled = tmp_path / ".env"
    filled.write_text("".join(f"{name}=\n" for name in sorted(names)))

    kinds = {"CODE_EXECUTOR": CodeExecutorSettings, "LOCATION": LocationSettings}
    of_module = {f"{prefix}_{field.name.upper()}" for prefix, kind in kinds.items() for field in fields(kind)}
    assert names - SETTING_NAMES - FOR_COMPOSE - set(list_setting_names()) - of_module == {"ANTHROPIC_API_KEY"}
    try:
        assert load_settings(filled, more_names=list_setting_names()).llm_models == ()
    finally:
        # The lines of the file are in the environment now, which libraries read, too.
        os.environ.clear()
        os.environ.update(before)
