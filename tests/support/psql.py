"""Statements as an admin types them in psql."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from shared.db.database import Address
from tests.support.connections import connected


class Psql:
    """Runs statements as an admin's psql does."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def run(self, statement: str) -> None:
        await self._connection.execute(statement)

    async def value(self, statement: str, *parameters: Any) -> Any:
        return await self._connection.fetchval(statement, *parameters)

    async def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._connection.fetch(statement, *parameters)]

    async def warned(self, statement: str) -> list[str]:
        """Run a statement and return the warnings."""
        warnings: list[str] = []

        def note(_connection: object, message: Any) -> None:
            warnings.append(message.message)

        self._connection.add_log_listener(note)
        await self._connection.execute(statement)
        self._connection.remove_log_listener(note)
        return warnings

    async def last(self) -> int:
        number: int = await self.value("SELECT max(id) FROM audit_log")
        return number


@asynccontextmanager
async def psql_session(address: Address, **role: Any) -> AsyncIterator[Psql]:
    async with connected(address, **role) as connection:
        yield Psql(connection)
