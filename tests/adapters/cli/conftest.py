"""A folder with an embedded Postgres, made once for each file of tests."""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.adapters.cli.shell import Shell
from tests.support.folders import TEMPLATE, temporary_folder


@pytest.fixture(scope="session")
def migrated_home() -> Iterator[Path]:
    """A home with a migrated database that is stopped; of several test processes the first one makes it."""
    with ExitStack() as stack:
        folder = Path(os.environ.get(TEMPLATE) or stack.enter_context(temporary_folder("cli")))
        with (folder / "home.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            is_made = folder / "home.made"
            if not is_made.exists():
                Shell(folder).says("migrate")
                is_made.touch()
        yield Shell(folder).home


@pytest.fixture(scope="module")
def shell(migrated_home: Path) -> Iterator[Shell]:
    """A shell whose Postgres stays up between the commands, as it does beside a running Parley."""
    with temporary_folder("cli") as path:
        shell = Shell(path)
        # With the owners of the files: the server has a user of its own.
        subprocess.run(["cp", "-a", migrated_home, shell.home], check=True)
        # An open psql keeps the server; it stops with it, before the folder goes.
        with shell.start("psql") as psql:
            # Connected, before the first test: one of them counts on it.
            assert psql.stdin is not None
            assert psql.stdout is not None
            psql.stdin.write("\\echo connected\n")
            psql.stdin.flush()
            assert "connected" in psql.stdout.readline()
            yield shell
            psql.communicate()


@pytest.fixture
def fresh() -> Iterator[Shell]:
    """A shell where nothing has been started yet."""
    with temporary_folder("cli") as path:
        yield Shell(path)
