"""The pages of the tables and of the schema admin: what the database itself says about them."""

import re
from itertools import groupby

import asyncpg

from tests.reference.page import build_page, build_table

# What belongs to libraries is theirs to explain. Functions without a comment are parts of others.
COLUMNS = """
SELECT class.relname AS name, class.relkind IN ('v', 'm') AS is_view,
       obj_description(class.oid, 'pg_class') AS about, attribute.attname AS "column",
       format_type(coalesce(nullif(typbasetype, 0), attribute.atttypid), attribute.atttypmod) AS type,
       col_description(class.oid, attribute.attnum) AS meaning,
       (SELECT array_agg(rule.name ORDER BY rule.name) FROM (
            SELECT conname::text AS name FROM pg_constraint
            WHERE conrelid = class.oid AND contype IN ('c', 'u', 'x') AND NOT coninhcount > 0
            -- Of the types of its columns.
            UNION SELECT conname FROM pg_constraint
            JOIN pg_attribute AS own ON own.atttypid = contypid
            WHERE own.attrelid = class.oid AND own.attnum > 0 AND class.relkind IN ('r', 'p')
            UNION SELECT indexrelid::regclass::text FROM pg_index
            WHERE indrelid = class.oid AND indisunique AND NOT indisprimary) AS rule) AS rules
FROM pg_class AS class
JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid AND attribute.attnum > 0 AND NOT attribute.attisdropped
JOIN pg_type ON pg_type.oid = attribute.atttypid
WHERE namespace.nspname = $1 AND class.relkind IN ('r', 'p', 'v', 'm')
  AND NOT class.relispartition AND class.relname <> 'alembic_version'
ORDER BY class.relname, attribute.attnum
"""
FUNCTIONS = """
SELECT procedure.proname AS name,
       pg_get_function_arguments(procedure.oid) AS arguments, obj_description(procedure.oid, 'pg_proc') AS about
FROM pg_proc AS procedure JOIN pg_namespace AS namespace ON namespace.oid = procedure.pronamespace
WHERE namespace.nspname = $1 AND (namespace.nspname = 'admin' OR procedure.proname LIKE 'parley%')
  AND obj_description(procedure.oid, 'pg_proc') IS NOT NULL
  AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = procedure.oid AND deptype = 'e')
ORDER BY procedure.proname, arguments
"""
# As people write them.
SHORTER = (("timestamp with time zone", "timestamptz"), (" DEFAULT ", " = "), ("'infinity'", "infinity"))
CAST = re.compile(r"::(?:\w+(?: \w+)*)(?:\[\])?")


async def build_tables(connection: asyncpg.Connection) -> str:
    """Return the page of what the program keeps; the connection is that of the database's owner."""
    columns = await connection.fetch(COLUMNS, "public")
    tables, views = ([row for row in columns if row["is_view"] == is_view] for is_view in (False, True))
    introduction = (
        "Written from the comments in the database (`\\d+ turns` in `parley psql`). Below each table are the names of "
        "the rules that refuse a row. Admins use [the schema admin](admin.md); the program connects as `parley_app`, "
        "which owns nothing."
    )
    return build_page(
        "Tables and their functions",
        introduction,
        [
            "## Tables",
            *_list_relations(tables),
            "## Views",
            *_list_relations(views),
            "## Functions",
            _list_functions(await connection.fetch(FUNCTIONS, "public"), ""),
        ],
    )


async def build_admin(connection: asyncpg.Connection) -> str:
    """Return the page of the schema admin; the connection is that of the database's owner."""
    introduction = (
        "For people in `parley psql`: `\\dv+ admin.*` and `\\df+ admin.*` list the same. An account is given by its id "
        "or its name. Functions keep to the rights of the role that calls them, return one sentence about what they "
        "did, and refuse what is wrong with what would be valid. What people do with them: "
        "[administration with SQL](../admin-sql.md)."
    )
    functions = [
        row for row in await connection.fetch(FUNCTIONS, "admin") if not row["about"].startswith(("Trigger: ", "For "))
    ]
    return build_page(
        "The schema admin",
        introduction,
        [
            "## Functions",
            _list_functions(functions, "admin."),
            "## Views",
            *_list_relations(await connection.fetch(COLUMNS, "admin"), "admin."),
        ],
    )


def _list_relations(rows: list[asyncpg.Record], schema: str = "") -> list[str]:
    parts = []
    for (name, about), group in groupby(rows, key=lambda row: (row["name"], row["about"])):
        members = list(group)
        columns = [[f"`{row['column']}`", row["type"], row["meaning"] or ""] for row in members]
        has_meanings = any(meaning for _, _, meaning in columns)
        names = ", ".join(column for column, _, _ in columns)
        below = build_table(("column", "type", "meaning"), columns) if has_meanings else f"Columns: {names}."
        rules = ", ".join(f"`{rule}`" for rule in members[0]["rules"] or ())
        parts.append("\n\n".join([f"### {schema}{name}", about or "", below, *([f"Rules: {rules}."] if rules else [])]))
    return parts


def _list_functions(rows: list[asyncpg.Record], schema: str) -> str:
    return build_table(
        ("function", "what it does"),
        [[f"`{schema}{row['name']}({_shorten(row['arguments'])})`", row["about"]] for row in rows],
    )


def _shorten(arguments: str) -> str:
    for long, short in SHORTER:
        arguments = arguments.replace(long, short)
    return CAST.sub("", arguments)
