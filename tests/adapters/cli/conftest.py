"""A folder with an embedded Postgres, made once for each file of tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.adapters.cli.shell import Shell


@contextmanager
def folder() -> Iterator[Path]:
    # Not pytest's: its folders are closed again to the user that the embedded Postgres runs as.
    with TemporaryDirectory(prefix="parley-cli-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """A shell whose Postgres stays up between the commands, as it does beside a running Parley."""
    with folder() as path:
        shell = Shell(path)
        shell.says("migrate")
        # An open psql keeps the server; it stops with it, before the folder goes.
        with shell.start("psql") as psql:
            yield shell
            psql.communicate()


@pytest.fixture
def fresh() -> Iterator[Shell]:
    """A shell where nothing has been started yet."""
    with folder() as path:
        yield Shell(path)
