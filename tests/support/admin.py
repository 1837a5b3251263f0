"""The database's owner, as whom tests look at all rows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from shared.db.database import Address


class Admin:
    """Runs SQL as the database's owner, whom row-level security does not restrict."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    @classmethod
    @asynccontextmanager
    async def connected(cls, address: Address) -> AsyncIterator["Admin"]:
        connection = await asyncpg.connect(**address.asyncpg_arguments(as_owner=True))
        try:
            yield cls(connection)
        finally:
            await connection.close()

    async def rows(self, statement: str, *given: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._connection.fetch(statement, *given)]

    async def overdue(self) -> None:
        await self._connection.execute("UPDATE memories SET vectors_due_at = now()")
