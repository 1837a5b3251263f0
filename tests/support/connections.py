"""A connection beside the program's pool: the owner's, who sees all rows, unless told otherwise."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

from shared.db.database import Address


@asynccontextmanager
async def connected(address: Address, **role: Any) -> AsyncIterator[asyncpg.Connection]:
    """Open it for the block; `role` is what `Address.asyncpg_arguments` takes."""
    connection = await address.connect(**(role or {"as_owner": True}), statement_seconds=0)
    try:
        yield connection
    finally:
        await connection.close()


async def run_as_owner(address: Address, *statements: str) -> None:
    """Run statements, each in a transaction of its own."""
    async with connected(address) as owner:
        for statement in statements:
            await owner.execute(statement)


async def begin_again(owner: asyncpg.Connection) -> None:
    """Leave a database in which nothing was said, whose numbers begin at 1."""
    while True:
        # Where the program reads the tables in another order, either may be chosen to give way.
        with suppress(asyncpg.DeadlockDetectedError):
            await owner.execute("TRUNCATE turns, inbox, outbox, conversations, budget_grants RESTART IDENTITY CASCADE")
            return


WAITS = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND $1 = ANY (pg_blocking_pids(pid)))"
# Not within a transaction, which sees what was there when it first looked.
WAITS_AS = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = $2 AND $1 = ANY (pg_blocking_pids(pid)))"


async def until_somebody_waits(
    connection: asyncpg.Connection, holder: int | None = None, role: str | None = None
) -> None:
    """Return when somebody waits for a lock of the process `holder` of the server, by default of this connection.

    Others wait for each other now and then: whoever notifies commits after the one before. `role`: as whom they are
    connected, where more than one may wait.
    """
    arguments = [holder or connection.get_server_pid(), *([] if role is None else [role])]
    async with asyncio.timeout(60):
        while not await connection.fetchval(WAITS if role is None else WAITS_AS, *arguments):  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0.01)
