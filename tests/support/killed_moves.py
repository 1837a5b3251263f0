"""A move that is killed at a step: locks at which it waits, and who moves a server as a process of its own."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from subprocess import PIPE

from tests.support.cells import SERVER, TwoCells
from tests.support.connections import connected, until_somebody_waits
from tests.support.forks import get_command
from tests.support.source_tree import ROOT

Point = Callable[[TwoCells], AbstractAsyncContextManager[int]]
GUILD = ("test", SERVER)


async def start_mover(
    cells: TwoCells, home: Path, to: str = "b", *, server: tuple[str, str] = GUILD
) -> asyncio.subprocess.Process:
    """Start `parley server move` as a process of its own; `server`: its platform and id."""
    return await asyncio.create_subprocess_exec(
        *get_command(),
        *("server", "move", *server, "--to", to, "--yes"),
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **cells.environment(home)},
        stdout=PIPE,
        stderr=PIPE,
    )


@asynccontextmanager
async def killed_at(
    cells: TwoCells, home: Path, at: tuple[str, Point], to: str = "b", *, server: tuple[str, str] = GUILD
) -> AsyncIterator[None]:
    """Run the block while a move waits at a point, where it is killed then; `at`: the cell, and the point there."""
    cell, point = at
    async with point(cells) as holder:
        mover = await start_mover(cells, home, to, server=server)
        async with connected(cells.addresses[cell]) as watcher:
            # Workers wait there, too, as another role.
            owner = await watcher.fetchval("SELECT current_user")
            waiting_for = asyncio.create_task(until_somebody_waits(watcher, holder, owner))
            ending = asyncio.create_task(mover.communicate())
            await asyncio.wait({waiting_for, ending}, return_when=asyncio.FIRST_COMPLETED)
            assert waiting_for.done(), ending.result()
            yield
            mover.send_signal(signal.SIGKILL)
            await ending
            # Its machine is gone: the server ends its sessions.
            await watcher.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE $1 = ANY (pg_blocking_pids(pid)) AND usename = current_user",
                holder,
            )


@asynccontextmanager
async def stopped_by(cells: TwoCells, cell: str, statement: str) -> AsyncIterator[int]:
    """Hold a lock that the mover waits for; yield the number of its session there once it does."""
    async with connected(cells.addresses[cell]) as holder:
        # The mover is a process, which may take its time to start.
        await holder.execute("SET idle_in_transaction_session_timeout = 0")
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute(statement)
        try:
            yield holder.get_server_pid()
        finally:
            await transaction.rollback()


def after_the_arrival(cells: TwoCells) -> AbstractAsyncContextManager[int]:
    return stopped_by(cells, "a", "LOCK TABLE cell_servers IN SHARE MODE")


def while_rows_are_copied(cells: TwoCells) -> AbstractAsyncContextManager[int]:
    return stopped_by(cells, "b", "LOCK TABLE memories IN SHARE MODE")


def before_the_first_commit(cells: TwoCells) -> AbstractAsyncContextManager[int]:
    return stopped_by(cells, "b", "LOCK TABLE inbox IN ROW EXCLUSIVE MODE")


@asynccontextmanager
async def between_the_commits(cells: TwoCells, source: str = "a") -> AsyncIterator[int]:
    async with connected(cells.addresses[source]) as owner:
        await owner.execute(
            """
            CREATE FUNCTION wait_at_the_commit() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN IF NEW.state = 'moved' THEN PERFORM pg_advisory_xact_lock(1); END IF; RETURN NULL; END $$;
            CREATE CONSTRAINT TRIGGER wait_at_the_commit AFTER UPDATE ON cell_servers DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION wait_at_the_commit();
            """
        )
    async with stopped_by(cells, source, "SELECT pg_advisory_xact_lock(1)") as holder:
        yield holder


POINTS: tuple[tuple[str, Point], ...] = (
    ("a", after_the_arrival),
    ("b", while_rows_are_copied),
    ("b", before_the_first_commit),
    ("a", between_the_commits),
)
