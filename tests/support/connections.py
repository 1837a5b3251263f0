"""A connection beside the program's pool: the owner's, who sees all rows, unless told otherwise."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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


async def until_somebody_waits(connection: asyncpg.Connection) -> None:
    """Return when a connection of the server waits for a lock that another one holds."""
    async with asyncio.timeout(60):
        while not await connection.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):  # noqa: ASYNC110  # the database tells nobody
            await asyncio.sleep(0.01)
