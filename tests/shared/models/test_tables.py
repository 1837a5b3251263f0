"""The classes of tables say what the database says: names, types, what may be NULL, and what it fills in itself."""

import asyncpg
import pytest
from sqlalchemy import Column, Table
from sqlalchemy.dialects import postgresql

from agent.tools.modules import discover
from shared.models import Base
from tests.support.source_tree import sources_in

# Modules and platforms have theirs in their folders.
discover()
DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]
COLUMNS = """
SELECT attname AS name, format_type(coalesce(nullif(typbasetype, 0), atttypid), atttypmod) AS type,
       NOT attnotnull AS is_nullable, attidentity <> '' OR atthasdef AS is_filled_in
FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped
"""


@pytest.mark.parametrize("table", list(Base.metadata.tables.values()), ids=lambda table: str(table.name))
async def test_a_class_has_the_columns_of_its_table(table: Table, owner: asyncpg.Connection) -> None:
    columns = {row["name"]: row for row in await owner.fetch(COLUMNS, table.name)}

    assert {column.name: (type_of(column), column.nullable) for column in table.columns} == {
        name: (row["type"], row["is_nullable"]) for name, row in columns.items()
    }
    # An object that is added leaves these columns to the database.
    assert {column.name for column in table.columns if column.server_default} <= {
        name for name, row in columns.items() if row["is_filled_in"]
    }


def type_of(column: Column[object]) -> str:
    """Return the type as Postgres writes it."""
    return str(column.type.compile(DIALECT)).lower().replace(", ", ",")


def test_every_class_is_used_by_a_query() -> None:
    imports = {
        imported.name.rpartition(".")[2]
        for source in sources_in("adapters", "agent", "modules", "shared")
        if not source.path.startswith("shared/models/") and not source.path.endswith("/models.py")
        for imported in source.imports()
    }
    classes = {mapper.class_.__name__ for mapper in Base.registry.mappers}

    assert len(classes) > 5
    assert classes - imports == set()
