"""Temporary folders for servers of Postgres: in memory where it has room."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # folders in it get random names and are closed to others
# The variable of the environment that names the folder of the server of Postgres that test processes copy.
TEMPLATE = "TEST_POSTGRES_TEMPLATE"
# Bytes: each test process needs less than 0.5 GB.
ROOM = 2 * 1024**3


@contextmanager
def temporary_folder(kind: str) -> Iterator[Path]:
    """Make a folder for the block. In memory a database is copied in a tenth of the time that a disk takes."""
    has_room = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > ROOM
    # Not pytest's: its folders are closed again to the user that the embedded Postgres runs as.
    with tempfile.TemporaryDirectory(
        prefix=f"parley-{kind}-", dir=SHARED_MEMORY if has_room else None, ignore_cleanup_errors=True
    ) as name:
        yield Path(name)
