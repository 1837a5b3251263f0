"""The page of the tables: what the database itself says about its tables, columns, views and functions."""

from itertools import groupby

import asyncpg

from tests.reference.page import build_page, build_table

# What belongs to libraries is theirs to explain. Functions without a comment are parts of others.
COLUMNS = """
SELECT namespace.nspname AS schema, class.relname AS name, class.relkind IN ('v', 'm') AS is_view,
       obj_description(class.oid, 'pg_class') AS about, attribute.attname AS "column",
       format_type(attribute.atttypid, attribute.atttypmod) AS type, attribute.attnotnull AS is_required,
       col_description(class.oid, attribute.attnum) AS meaning
FROM pg_class AS class
JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid AND attribute.attnum > 0 AND NOT attribute.attisdropped
WHERE namespace.nspname IN ('public', 'admin') AND class.relkind IN ('r', 'p', 'v', 'm')
  AND NOT class.relispartition AND class.relname <> 'alembic_version'
ORDER BY namespace.nspname = 'admin', class.relname, attribute.attnum
"""
FUNCTIONS = """
SELECT namespace.nspname AS schema, procedure.proname AS name,
       pg_get_function_arguments(procedure.oid) AS arguments, obj_description(procedure.oid, 'pg_proc') AS about
FROM pg_proc AS procedure JOIN pg_namespace AS namespace ON namespace.oid = procedure.pronamespace
WHERE (namespace.nspname = 'admin' OR procedure.proname LIKE 'parley%')
  AND (namespace.nspname = 'admin' OR obj_description(procedure.oid, 'pg_proc') IS NOT NULL)
  AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = procedure.oid AND deptype = 'e')
ORDER BY namespace.nspname = 'public', procedure.proname, arguments
"""


async def build_tables(connection: asyncpg.Connection) -> str:
    """Return the page; the connection is that of the database's owner."""
    columns = await connection.fetch(COLUMNS)
    tables, views = ([row for row in columns if row["is_view"] == is_view] for is_view in (False, True))
    functions = await connection.fetch(FUNCTIONS)
    introduction = (
        "Written from the comments in the database (`\\d+ turns` in `parley psql`). Admins change rows with "
        "[SQL](../admin-sql.md); the program connects as `parley_app`, which owns nothing."
    )
    return build_page(
        "Tables, views and functions",
        introduction,
        [
            "## Tables",
            *_list_relations(tables),
            "## Views",
            *_list_relations(views),
            "## Functions",
            build_table(
                ("function", "what it does"),
                [[f"`{_to_name(row)}({row['arguments']})`", row["about"] or ""] for row in functions],
            ),
        ],
    )


def _list_relations(rows: list[asyncpg.Record]) -> list[str]:
    parts = []
    for (schema, name, about), group in groupby(rows, key=lambda row: (row["schema"], row["name"], row["about"])):
        columns = [[f"`{row['column']}`", row["type"], row["meaning"] or ""] for row in group]
        has_meanings = any(meaning for _, _, meaning in columns)
        names = ", ".join(column for column, _, _ in columns)
        title = name if schema == "public" else f"{schema}.{name}"
        below = build_table(("column", "type", "meaning"), columns) if has_meanings else f"Columns: {names}."
        parts.append(f"### {title}\n\n{about or ''}\n\n{below}")
    return parts


def _to_name(row: asyncpg.Record) -> str:
    return str(row["name"]) if row["schema"] == "public" else f"{row['schema']}.{row['name']}"
