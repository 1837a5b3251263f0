"""The program's SQL: named statements in files, each prepared by a real Postgres, and none put together in Python."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy.sql.elements import TextClause

from shared.db.database import Address
from shared.db.driver import to_sql
from shared.db.statements import NAME, Statements, load_statements
from tests.support.connections import connected
from tests.support.source_tree import ROOT, Source, sources_in

PROGRAM = ("adapters", "agent", "migrations", "modules", "shared")
CLAUSE = re.compile(
    r"\b(SELECT|INSERT INTO|UPDATE \S+ SET|DELETE FROM|FROM \w|WHERE \w|JOIN \w|ORDER BY|GROUP BY|WITH \w+ AS|DROP \w)"
)
# These write SQL for something that no parameter can name.
GLUED = {
    "adapters/cli/database.py": "names a role that psql becomes",
    "migrations/versions/": "notes which revision the baseline is",
    "modules/data_analyst/": "writes queries on people's own tables, whose names and columns it has read",
    "shared/backup/database.py": "restores into databases that it names itself",
    "shared/memory/vectors.py": "tells an operator which statement helps",
    "shared/memory/vector_indexes.py": "makes an index for each large scope, which the planner finds by literal values",
}
HAS_DOMAIN = "SELECT EXISTS (SELECT FROM pg_type WHERE oid = ANY($1) AND typtype = 'd')"


def files_with_statements() -> list[Source]:
    return [source for source in sources_in(*PROGRAM) if "load_statements(__file__" in source.text]


def statements_of(source: Source) -> Statements:
    module = importlib.import_module(source.path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    statements = module.statements
    assert isinstance(statements, Statements)
    return statements


def names_in(source: Source) -> set[str]:
    """The statements that a file runs."""
    return {
        node.attr
        for node in source.nodes()
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "statements"
    }


async def find_fault(connection: asyncpg.Connection, statement: TextClause) -> str | None:
    try:
        prepared = await connection.prepare(to_sql(statement))
    except asyncpg.PostgresError as error:
        return str(error)
    # Each connection would ask for the parts of such a type first.
    has_domain = await connection.fetchval(HAS_DOMAIN, [kind.oid for kind in prepared.get_parameters()])
    return "a parameter has the type of a domain, and needs a CAST" if has_domain else None


async def test_every_named_statement_is_one_that_the_database_can_prepare(address: Address) -> None:
    async with connected(address, as_owner=False) as connection:
        faults = [
            f"{source.path}: {name}: {fault}"
            for source in files_with_statements()
            for name in sorted(names_in(source))
            if (fault := await find_fault(connection, getattr(statements_of(source), name)))
        ]

    assert not faults, "\n".join(faults)


def test_every_named_statement_is_run_by_the_code_beside_it() -> None:
    mentions: dict[str, set[str]] = {}
    for source in files_with_statements():
        mentions.setdefault(source.path.rpartition("/")[0], set()).update(names_in(source))
    definitions = {
        path.parent.relative_to(ROOT).as_posix(): NAME.findall(path.read_text("utf-8"))
        for package in PROGRAM
        for path in (ROOT / package).rglob("statements.sql")
    }

    assert {folder: sorted(names) for folder, names in mentions.items()} == {
        folder: sorted(names) for folder, names in definitions.items()
    }


def is_glued(node: ast.AST) -> bool:
    """Whether an expression puts text into SQL, or pieces of SQL together."""
    parts: list[ast.AST]
    match node:
        case ast.JoinedStr():
            parts = [node]
        case ast.BinOp(op=ast.Add() | ast.Mod()):
            parts = [node.left, node.right]
        case ast.Call(func=ast.Attribute(attr="format" | "join" | "replace", value=value)):
            parts = [value, *node.args]
        case _:
            return False
    texts = (part.value for tree in parts for part in ast.walk(tree) if isinstance(part, ast.Constant))
    return any(isinstance(text, str) and CLAUSE.search(text) for text in texts)


def is_of_constants(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) and not any(isinstance(part, ast.FormattedValue) for part in node.values)


def glued_in(source: Source) -> Iterator[int]:
    for node in source.nodes():
        if is_glued(node) and not is_of_constants(node):
            yield getattr(node, "lineno", 0)
        # A piece that is no clause by itself.
        match node:
            case ast.Call(func=ast.Name(id="text" | "literal_column"), args=[argument, *_]):
                if not isinstance(argument, ast.Constant | ast.Name):
                    yield node.lineno


def test_no_sql_is_put_together_in_python() -> None:
    places = [f"{source.path}:{line}" for source in sources_in(*PROGRAM) for line in glued_in(source)]

    complaints = [place for place in places if not place.startswith(tuple(GLUED))]
    assert not complaints, "\n".join(complaints)
    assert [reason for reason in GLUED if not any(place.startswith(reason) for place in places)] == []


FILE = """
-- name: find_user
-- By its account.
SELECT id FROM users
    -- In one place: one row.
WHERE id = :id AND name = '-- Ann';

-- name: count_users
SELECT count(*) FROM users;
"""


def test_a_statement_is_what_stands_below_its_name_without_the_comments(tmp_path: Path) -> None:
    (tmp_path / "statements.sql").write_text(FILE)

    statements = load_statements(str(tmp_path / "users.py"))

    assert statements.find_user.text == "SELECT id FROM users\nWHERE id = :id AND name = '-- Ann'"
    assert statements.count_users.text == "SELECT count(*) FROM users"
    assert statements.count_users is statements.count_users


def test_a_parameter_has_the_type_that_its_name_stands_for(tmp_path: Path) -> None:
    (tmp_path / "statements.sql").write_text(FILE)

    statement = load_statements(str(tmp_path / "users.py"), {"id": "bigint"}).find_user

    assert "WHERE id = $1::bigint" in to_sql(statement)


def test_a_name_that_stands_nowhere_or_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "statements.sql"
    path.write_text(FILE)

    with pytest.raises(AttributeError, match="find_person"):
        _ = load_statements(str(tmp_path / "users.py")).find_person
    path.write_text(FILE * 2)
    with pytest.raises(ValueError, match="one name"):
        load_statements(str(tmp_path / "users.py"))
