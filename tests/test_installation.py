"""The wheel: what it holds, and that it runs in an empty folder, as a tool of a person who has never run it."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.adapters.cli.test_running import fetch, find_base, stop
from tests.support.folders import temporary_folder
from tests.support.source_tree import PACKAGES, ROOT

UV = Path(sys.executable).with_name("uv")


def uv(*arguments: str | Path) -> None:
    subprocess.run([UV, *arguments, "--quiet", "--offline", "--no-config"], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source archive, as a release is."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture
def program(wheel: Path, tmp_path: Path) -> Path:
    """`parley` in an environment of its own, with the packages that the tests run on but not their Parley."""
    environment = tmp_path / "tool"
    uv("venv", "--python", sys.executable, environment)
    uv("pip", "install", "--no-deps", "--no-index", "--python", environment / "bin/python", wheel)
    (packages,) = environment.glob("lib/python*/site-packages")
    # A path in a .pth file is not searched for further .pth files, such as the one of the editable install.
    (packages / "of_the_tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return environment / "bin/parley"


def test_the_wheel_holds_every_file_that_the_program_reads(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    files = (
        path for package in PACKAGES if package != "tests" for path in (ROOT / package).rglob("*") if path.is_file()
    )
    ours = {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}

    assert ours - names == set()
    assert not any(name.startswith(("tests/", "docs/")) for name in names)


def test_the_installed_wheel_runs_in_an_empty_folder_with_a_fresh_home(program: Path) -> None:
    # Sockets have short paths.
    with temporary_folder("installed") as home:
        (home / "empty").mkdir()
        running = subprocess.Popen(
            [program, "run"],
            cwd=home / "empty",
            env={"PATH": os.environ["PATH"], "HOME": str(home), "PORT": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        try:
            assert running.stdout is not None
            lines = list(iter(running.stdout.readline, "Ctrl+C stops it.\n"))
            data = home / ".local/share/parley"
            message = {"platform": "script", "platform_user_id": "ann", "platform_channel_id": "notes"}
            token = (data / ".parley/api_token").read_text()
            status, answer = fetch(f"{find_base(lines)}/v1/messages", token, **message, content="what is 12*(3+4)?")
            assert (status, "12*(3+4) = 84" in answer) == (200, True)
            # Where the settings belong is said, because there is no project's folder to look into.
            assert str(data / ".env") in "".join(lines)
            assert list((home / "empty").iterdir()) == []
            stop(running)
        finally:
            running.kill()
            running.communicate()
