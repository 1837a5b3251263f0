"""Named SQL statements, from the file `statements.sql` in the folder of the code that runs them.

A statement begins with `-- name: close_turn`, as in aiosql, whose own loader needs a driver's connection where we have
sessions; comments follow that give reasons, and a semicolon ends it. Code says `statements.close_turn`, and passes
parameters by name. The text never changes, so that each connection plans a statement once.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import bindparam, text
from sqlalchemy.sql.elements import TextClause
from sqlalchemy.types import TypeEngine

FILE = "statements.sql"
NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
PARAMETER = re.compile(r"(?<![:\w]):(\w+)")
COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)


class Statements:
    """The statements of one file, each an attribute."""

    def __init__(self, statements: Mapping[str, TextClause]) -> None:
        self._statements = statements

    def __getattr__(self, name: str) -> TextClause:
        """Return a statement."""
        try:
            return self._statements[name]
        except KeyError:
            raise AttributeError(f"{FILE} has no statement named {name}") from None


def load_statements(python_file: str, types: Mapping[str, TypeEngine[Any]] | None = None) -> Statements:
    """Return the statements beside a Python file; `types` are those of parameters whose type Postgres can't know."""
    return Statements(read_statements(Path(python_file).with_name(FILE), types or {}))


def read_statements(path: Path, types: Mapping[str, TypeEngine[Any]]) -> dict[str, TextClause]:
    """Return the statements of a file by name; raises `ValueError` when two have one name."""
    _, *parts = NAME.split(path.read_text("utf-8"))
    names, bodies = parts[::2], parts[1::2]
    if len(set(names)) < len(names):
        raise ValueError(f"{path} has two statements of one name")
    return {name: _to_clause(body, types) for name, body in zip(names, bodies, strict=True)}


def _to_clause(body: str, types: Mapping[str, TypeEngine[Any]]) -> TextClause:
    sql = COMMENT.sub("", body).strip().removesuffix(";")
    names = types.keys() & PARAMETER.findall(sql)
    return text(sql).bindparams(*(bindparam(name, type_=types[name]) for name in names))
