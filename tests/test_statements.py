"""The program's SQL: named statements in files, each prepared by a real Postgres."""

import ast
import importlib
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy import BigInteger
from sqlalchemy.sql.elements import TextClause

from shared.db.database import Address
from shared.db.driver import DIALECT
from shared.db.statements import NAME, Statements, load_statements
from tests.support.connections import connected
from tests.support.source_tree import ROOT, Source, sources_in

PROGRAM = ("adapters", "agent", "migrations", "modules", "shared")


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
        await connection.prepare(str(statement.compile(dialect=DIALECT)))
    except asyncpg.PostgresError as error:
        return str(error)
    return None


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
    used: dict[str, set[str]] = {}
    for source in files_with_statements():
        used.setdefault(source.path.rpartition("/")[0], set()).update(names_in(source))
    written = {
        path.parent.relative_to(ROOT).as_posix(): NAME.findall(path.read_text("utf-8"))
        for package in PROGRAM
        for path in (ROOT / package).rglob("statements.sql")
    }

    assert {folder: sorted(names) for folder, names in used.items()} == {
        folder: sorted(names) for folder, names in written.items()
    }


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

    statement = load_statements(str(tmp_path / "users.py"), {"id": BigInteger()}).find_user

    assert "WHERE id = $1::BIGINT" in str(statement.compile(dialect=DIALECT))


def test_a_name_that_stands_nowhere_or_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "statements.sql"
    path.write_text(FILE)

    with pytest.raises(AttributeError, match="find_person"):
        _ = load_statements(str(tmp_path / "users.py")).find_person
    path.write_text(FILE * 2)
    with pytest.raises(ValueError, match="one name"):
        load_statements(str(tmp_path / "users.py"))
