"""Support for tests of recovery: replaced collaborators, and a Postgres that may be restarted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import psutil  # type: ignore[import-untyped]  # the package has no types
from sqlalchemy import URL

from adapters.cli.compose import open_app
from adapters.cli.worker import build_worker
from agent.app import App
from agent.queue.outbox import Senders
from shared.db.database import Address, Database
from shared.db.embedded import find_server
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.parley import FakePlatform, Parley

OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()"


def replaced(app: App, **parts: Any) -> App:
    """Return the app with these parts, each a field of `App`, of `Models` or of `ToolSources`."""
    groups: dict[str, Any] = {}
    for group in ("models", "tools"):
        own = {name: parts.pop(name) for name in list(parts) if name in getattr(app, group).__dataclass_fields__}
        groups[group] = replace(getattr(app, group), **own)
    return replace(app, **groups, **parts)


@asynccontextmanager
async def open_parley_with(
    settings: Settings,
    address: Address,
    model: OpenAIStub,
    *,
    senders: Senders | None = None,
    **parts: Any,
) -> AsyncIterator[Parley]:
    """Open a `Parley` with a worker, with these fields of `App`, its models or its tools replaced."""
    platform = FakePlatform()
    async with open_app(settings, address, senders or {"fake": platform}) as app:
        parley = Parley(replaced(app, **parts), model, platform)
        parley.worker = asyncio.create_task(build_worker(parley.app).run(), name="worker of the parley")
        try:
            yield parley
        finally:
            parley.worker.cancel()
            await asyncio.gather(parley.worker, return_exceptions=True)


class SilentDatabase(Database):
    """Connections that fire no triggers, so that jobs are queued without a notification."""

    async def connect(self) -> asyncpg.Connection:
        """Open such a connection as the owner."""
        connection: asyncpg.Connection = await asyncpg.connect(**self.address.asyncpg_arguments(as_owner=True))
        await connection.execute("SET session_replication_role = replica")
        return connection


async def control(home: Path, action: str, mode: str) -> None:
    """Let `pg_ctl` restart or stop the embedded Postgres of this home; `immediate` is a crash of it."""
    await asyncio.to_thread(find_server(home).control, action, mode)


async def kill_postgres(home: Path) -> None:
    """Kill the embedded Postgres of this home with all its processes, as a lost machine does, and start it again."""
    await asyncio.to_thread(_kill_postmaster, home)
    await control(home, "restart", "immediate")


def _kill_postmaster(home: Path) -> None:
    postmaster = psutil.Process(int((home / "postgres" / "postmaster.pid").read_text().split()[0]))
    processes = [postmaster, *postmaster.children(recursive=True)]
    # Frozen first, so that it neither starts new processes nor stops the others in an orderly way.
    postmaster.suspend()
    for process in processes:
        process.kill()
    psutil.wait_procs(processes, timeout=20)


async def cut_connections(server: URL, address: Address) -> int:
    """End every connection to a database, as a failover does; return how many there were."""
    connection = await asyncpg.connect(**Address(server, is_embedded=True).asyncpg_arguments(as_owner=True))
    try:
        return len(await connection.fetch(OTHERS, address.url.database))
    finally:
        await connection.close()
