"""The image: its Dockerfile, and what its steps leave, started as its user and asked as an engine asks it."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from shared.db.database import Address
from shared.db.hosts import URL
from shared.settings import SETTING_NAMES
from tests.deploy.replay import Image, Replay, read_stages, read_steps
from tests.support.given_database import given_database
from tests.support.source_tree import PACKAGES, ROOT
from tests.test_packaging import CODE_LOCK, EMBEDDINGS_LOCK, EXTRAS_LOCK, RUN_LOCK, SBOM_LOCK

# Its steps take half a minute of a processor, and others use it as well.
pytestmark = pytest.mark.timeout(600)
BIN = Path(sys.executable).parent
# What pip itself needs, which a new environment has.
OF_EVERY_ENVIRONMENT = frozenset({"pip", "setuptools"})
COMPILERS = re.compile(r"\b(gcc|g\+\+|clang|build-essential|cargo|rustc|make|apt-get|apk)\b")


@pytest.fixture
async def database(postgres: URL) -> AsyncIterator[Address]:
    async with given_database(postgres) as address:
        yield address


def last_stage() -> dict[str, str]:
    return {step.word: step.value for step in read_stages()[-1]}


def test_hadolint_finds_no_fault() -> None:
    command = [str(BIN / "hadolint"), "--no-color", str(ROOT / "Dockerfile")]
    linted = subprocess.run(command, capture_output=True, text=True, check=False)

    assert linted.returncode == 0, linted.stdout


def test_every_base_is_the_one_python_named_by_its_digest() -> None:
    bases = [step.value for step in read_steps() if step.word == "FROM"]

    (first,) = [base for base in bases if not re.match(r"base( |$)", base)]
    assert re.fullmatch(r"python:3\.\d+-slim-bookworm@sha256:[0-9a-f]{64} AS base", first)


def test_nothing_is_installed_without_a_hash_and_the_last_stage_installs_and_compiles_nothing() -> None:
    runs = [step.value for step in read_steps() if step.word == "RUN"]

    installs = [command for run in runs for command in re.split(r"&&|\|\|", run) if " install " in command]
    assert len(installs) == 5
    assert all("--require-hashes" in command or "--no-index" in command for command in installs)
    assert not any(COMPILERS.search(run) for run in runs)
    assert [step.value.split()[0] for step in read_stages()[-1] if step.word == "RUN"] == ["useradd"]


def test_the_image_does_not_run_as_root_and_has_a_health_check() -> None:
    steps = last_stage()

    assert int(steps["USER"]) > 0
    assert "/healthz" in steps["HEALTHCHECK"]
    assert yaml.safe_load(steps["ENTRYPOINT"]) == ["parley"]
    assert yaml.safe_load(steps["CMD"]) == ["run"]


def test_the_variables_of_the_image_are_settings() -> None:
    names = {pair.partition("=")[0] for pair in shlex.split(last_stage()["ENV"])}

    assert names - SETTING_NAMES == {"PATH", "PYTHONUNBUFFERED"}


def test_the_builder_is_given_what_it_needs_and_no_secret() -> None:
    exceptions = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}

    locks = {RUN_LOCK, EMBEDDINGS_LOCK, EXTRAS_LOCK, CODE_LOCK, SBOM_LOCK}
    scripts = {".ci/code-environment", ".ci/sbom"}
    assert exceptions == {"LICENSE", "README.md", "pyproject.toml", *scripts, *locks, *PACKAGES} - {"tests"}


async def test_the_image(database: Address, unused_tcp_port: int, subtests: pytest.Subtests) -> None:
    variables = {
        "DATABASE_URL": database.url.to_text(hide_password=False),
        "HOST": "127.0.0.1",
        "PORT": str(unused_tcp_port),
        "SECRET_KEY": "s" * 32,
        "API_TOKEN": "t" * 32,
    }
    # In one test, because each process that has one of several would make the image.
    with tempfile.TemporaryDirectory(prefix="parley-image-") as folder:
        image = await asyncio.to_thread(make_image, Path(folder))
        with subtests.test("its program migrates, serves and is found healthy as a user without rights"):
            # The database is reached through this process, which goes on meanwhile.
            await asyncio.to_thread(migrate_and_serve, image, variables)
        with subtests.test("the program and its packages belong to root and are compiled"):
            check_files(image)
        for name, locks in (("parley", (RUN_LOCK, EXTRAS_LOCK)), ("code", (CODE_LOCK, EMBEDDINGS_LOCK))):
            with subtests.test(f"the bill of materials of {name} has each package of the locks and nothing else"):
                check_packages(image, name, locks)
            with subtests.test(f"the bill of materials of {name} is CycloneDX and names no folder of the builder"):
                check_bill(image, name)


def make_image(folder: Path) -> Image:
    """Carry out the steps; other users may read what they make, as pytest's own folders may not be."""
    folder.chmod(0o755)
    return Replay(folder).run()


def migrate_and_serve(image: Image, variables: dict[str, str]) -> None:
    parley, health = image.command["ENTRYPOINT"], image.command["HEALTHCHECK"]
    migrated = image.run([*parley, "migrate"], **variables)
    assert migrated.returncode == 0, migrated.stdout
    # An engine would find it ill before it has begun.
    assert image.run(health, **variables).returncode == 1

    running = image.start([*parley, *image.command["CMD"]], **variables)
    try:
        assert running.stdout is not None
        lines: list[str] = []
        while "Ctrl+C stops it" not in (line := running.stdout.readline()):
            assert line, "".join(lines)
            lines.append(line)
        healthy = image.run(health, **variables)
        assert healthy.returncode == 0, healthy.stdout
        if os.getuid() == 0:
            status = Path(f"/proc/{running.pid}/status").read_text("utf-8")
            assert re.search(rf"^Uid:\t{image.user}\t{image.user}\t", status, re.MULTILINE)
        running.terminate()
        assert running.wait(30) == 0
    finally:
        running.kill()
        running.communicate()


def check_files(image: Image) -> None:
    code = image.root / "opt/parley"
    paths = [path for path in code.rglob("*") if not path.is_symlink()]

    assert [str(path) for path in paths if path.stat().st_mode & 0o022] == []
    assert {path.stat().st_uid for path in paths} == {os.getuid()}
    for source in (code / "agent").rglob("*.py"):
        assert list((source.parent / "__pycache__").glob(f"{source.stem}.*.pyc")), source
    assert not (image.root / "opt/sbom").exists()


def components_of(image: Image, name: str) -> dict[str, str]:
    bill: dict[str, Any] = json.loads((image.root / f"opt/parley/sbom/{name}.cdx.json").read_text("utf-8"))
    assert bill["metadata"]["component"]["name"] == "parley-agent"
    assert bill["metadata"]["component"]["version"] == version("parley-agent")
    return {canonicalize_name(component["name"]): component["version"] for component in bill["components"]}


def packages_of(lock: str, python: str) -> dict[str, str]:
    """Return name → version of what a lock has for this machine's system and this version of Python."""
    text = (ROOT / lock).read_text("utf-8").replace("\\\n", " ")
    lines = [line.partition(" --hash")[0] for line in text.splitlines() if re.match(r"\w", line)]
    requirements = [Requirement(line) for line in lines]
    return {
        canonicalize_name(requirement.name): str(requirement.specifier).removeprefix("==")
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate({"python_full_version": python})
    }


def check_packages(image: Image, name: str, locks: tuple[str, ...]) -> None:
    components = components_of(image, name)
    python = image.run(["python", "-c", "import platform; print(platform.python_version())"]).stdout.strip()
    packages = {package: pin for lock in locks for package, pin in packages_of(lock, python).items()}

    assert {package: components[package] for package in components.keys() - OF_EVERY_ENVIRONMENT} == packages


def check_bill(image: Image, name: str) -> None:
    text = (image.root / f"opt/parley/sbom/{name}.cdx.json").read_text("utf-8")

    bill: dict[str, Any] = json.loads(text)
    # To parse an address by its grammar takes a hundredth of a second: those of one bill stand for all.
    for component in bill["components"] if name == "parley" else ():
        component.pop("externalReferences", None)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None
    assert str(image.root) not in text
    assert "file://" not in text
