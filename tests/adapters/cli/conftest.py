"""A folder with an embedded Postgres, made once for each file of tests."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.cli.shell import Shell
from tests.support.folders import temporary_folder


@pytest.fixture(scope="session")
def migrated_home() -> Iterator[Path]:
    """A home with a migrated database that is stopped."""
    with temporary_folder("cli") as path:
        shell = Shell(path)
        shell.says("migrate")
        yield shell.home


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
