"""A database that notes the statements it is given."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Executable, event
from sqlalchemy.ext.asyncio import AsyncSession

from shared.db.database import Address, Database
from shared.db.driver import Connection, Rows


class CountedDatabase(Database):
    """Notes the statements, without those that set the person and place for row-level security."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.statements: list[str] = []

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        async with super().transaction() as session:
            connection = (await session.connection()).sync_connection
            event.listen(connection, "before_cursor_execute", self._note)
            try:
                yield session
            finally:
                event.remove(connection, "before_cursor_execute", self._note)

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[Connection]:
        async with super().statement() as connection:
            yield _CountedConnection(connection, self.statements)

    def _note(self, _connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if "set_config" not in statement:
            self.statements.append(statement)


class _CountedConnection(Connection):
    def __init__(self, connection: Connection, statements: list[str]) -> None:
        self._connection, self._statements = connection, statements

    async def execute(self, statement: Executable, params: Mapping[str, Any] | None = None, /) -> Rows:
        self._statements.append(str(statement))
        return await self._connection.execute(statement, params)
