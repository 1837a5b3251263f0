"""The engine of tables in a Postgres: one read-only transaction on a connection of its own for each question."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
from msgspec import Struct

from modules.data_analyst.queries import Column, Query, Relation
from modules.data_analyst.settings import AnalystSettings
from modules.data_analyst.tables import MAX_CELL_CHARS, MAX_COLUMNS, Rows, to_rows
from shared.errors import ToolError, Unavailable

CONNECT_SECONDS = 10
SHORT_TYPES = {"bool", "int2", "int4", "int8", "float4", "float8", "numeric"}
# As itself, or as a role that it may become: a SELECT can change the role.
LOGIN_MAY_WRITE = """
SELECT EXISTS (
    SELECT FROM pg_roles WHERE pg_has_role(current_user, pg_roles.oid, 'MEMBER') AND (rolsuper OR EXISTS (
        SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE relkind IN ('r', 'p', 'v', 'f') AND nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema' AND (
            has_table_privilege(pg_roles.oid, pg_class.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
            OR has_any_column_privilege(pg_roles.oid, pg_class.oid, 'INSERT, UPDATE')
        )
    ))
)
"""
NAME = "SELECT to_regclass($1)::oid, (SELECT format('%I.%I', nspname, relname) FROM pg_class JOIN pg_namespace"
NAME += " ON pg_namespace.oid = relnamespace WHERE pg_class.oid = to_regclass($1))"
COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod) AS type, typcategory = 'N' AS is_number
FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


class PostgresSource(Struct, frozen=True):
    """A table or view; `password` is None where the login needs none."""

    name: str
    url: str
    password: str | None
    relation: str
    settings: AnalystSettings

    async def describe(self) -> Relation:
        """Return the table's columns; raises `ToolError` when the login can't see it."""
        async with self._connected() as connection:
            row = await connection.fetchrow(NAME, self.relation)
            if row[0] is None:
                raise ToolError(f"The source {self.name} names {self.relation}, which its login can't see.")
            columns = await connection.fetch(COLUMNS, row[0])
        relation_columns = tuple(
            Column(column["attname"], column["type"], is_number=column["is_number"]) for column in columns
        )
        return Relation("postgres", row[1], relation_columns)

    async def fetch(self, query: Query, limit: int) -> Rows:
        """Return the first rows of a SELECT, values cut to a readable length; raises `ToolError` when it fails."""
        sql = query.text.strip().rstrip("; \n")
        async with self._connected() as connection:
            # Prepared as it is: the protocol takes one statement alone.
            columns = (await connection.prepare(sql)).get_attributes()
            if not 0 < len(columns) <= MAX_COLUMNS:
                raise ToolError(f"Give one SELECT of 1 to {MAX_COLUMNS} columns.")
            # Cut in the database, so that a huge value is never sent.
            select_list = ", ".join(
                f"c{at}" if column.type.name in SHORT_TYPES else f"left(CAST(c{at} AS text), {MAX_CELL_CHARS + 1})"
                for at, column in enumerate(columns)
            )
            names = ", ".join(f"c{at}" for at in range(len(columns)))
            # As a subquery, it can be nothing but a query; a comment at its end ends with the line.
            shortened = f"SELECT {select_list} FROM ({sql}\n) AS found({names}) LIMIT {limit + 1}"
            rows = await connection.fetch(shortened, *query.parameters)
        return to_rows([column.name for column in columns], [tuple(row) for row in rows], limit)

    async def export(self, query: Query, folder: Path, side: str) -> dict[str, Any]:
        """Write the result of the query to a CSV file, and return what the join needs to read it."""
        path = folder / f"{side}.csv"
        limit = self.settings.compare_row_limit
        async with self._connected() as connection:
            limited = f"SELECT * FROM ({query.text}) AS limited LIMIT {limit + 1}"
            copied = await connection.copy_from_query(limited, *query.parameters, output=path, format="csv")
        if int(copied.rpartition(" ")[2]) > limit:
            raise ToolError(f"{self.name} has more than {limit:,} keys; compare by fewer keys, or filter.")
        return {"csv": str(path)}

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[asyncpg.Connection]:
        try:
            async with asyncio.timeout(self.settings.timeout_seconds):
                connection = await self._connect()
                try:
                    await connection.transaction(readonly=True).start()
                    yield connection
                finally:
                    # The server rolls the transaction back.
                    connection.terminate()
        except TimeoutError:
            raise ToolError(f"That took longer than {self.settings.timeout_seconds:g} s; ask for less.") from None
        except asyncpg.PostgresConnectionError as error:
            raise Unavailable(f"The source {self.name} broke off the connection.") from error
        except (asyncpg.PostgresError, asyncpg.InterfaceError, ValueError, OverflowError) as error:
            raise ToolError(f"The source refused that: {str(error)[:500]}") from None

    async def _connect(self) -> asyncpg.Connection:
        milliseconds = str(round(self.settings.timeout_seconds * 1000))
        try:
            connection = await asyncpg.connect(
                self.url,
                password=self.password,
                timeout=CONNECT_SECONDS,
                statement_cache_size=0,
                server_settings={
                    "application_name": "parley data_analyst",
                    "default_transaction_read_only": "on",
                    "statement_timeout": milliseconds,
                    "TimeZone": "UTC",
                    "DateStyle": "ISO",
                    "jit": "off",
                    # Enough to group a million keys without files.
                    "work_mem": "64MB",
                },
            )
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
            raise Unavailable(f"The source {self.name} can't be reached; an admin can look at its row.") from error
        if await connection.fetchval(LOGIN_MAY_WRITE):
            connection.terminate()
            raise Unavailable(f"The login of the source {self.name} may write; give it one that may only read.")
        return connection
