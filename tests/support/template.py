"""The server of Postgres that each test process has a copy of: made once, by the process that they are forks of."""

import asyncio
import os
import subprocess
from pathlib import Path

from adapters.tables import update_tables
from shared.db.database import Address
from shared.db.embedded.server import start_postgres, stop_servers
from shared.db.hosts import URL
from tests.support.connections import run_as_owner
from tests.support.folders import TEMPLATE

# Without durability, which a test that needs it has on a server of its own, and with nobody at work in the background:
# a database is gone before its tables need it, and no test may find another session or plan by chance.
SETTINGS = (
    "fsync = off",
    "full_page_writes = off",
    "synchronous_commit = off",
    "max_wal_size = '128MB'",
    "autovacuum = off",
)


def make_template() -> None:
    """Make the server that is copied, in the folder that the environment names."""
    _make(Path(os.environ[TEMPLATE]))
    stop_servers()


def start_copy(folder: Path) -> URL:
    """Start a server with a migrated database `template_parley` in this folder, and return its URL."""
    template = os.environ.get(TEMPLATE)
    # A process that is no fork makes its own.
    if template is None:
        return _make(folder)
    # With the owner of the files, who starts the server.
    subprocess.run(["cp", "-a", f"{template}/postgres", str(folder)], check=True)
    return start_postgres(folder)


def _make(folder: Path) -> URL:
    url = start_postgres(folder)
    statements = [f"ALTER SYSTEM SET {line}" for line in SETTINGS]
    more = ("SELECT pg_reload_conf()", "CREATE DATABASE template_parley")
    asyncio.run(_run(url, *statements, *more))
    return url


async def _run(url: URL, *statements: str) -> None:
    await run_as_owner(Address(url, is_embedded=True), *statements)
    template = Address(url.set(database="template_parley"), is_embedded=True)
    await update_tables(template)
    # A tenth of the files and bytes less, and nothing left that the first reader of a row would write down.
    await run_as_owner(template, "VACUUM (FULL, FREEZE)")
    # The first connection writes down what each needs of the catalogue; the copies have that file, too.
    await run_as_owner(template)
