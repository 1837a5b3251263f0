"""Named SQL statements, from the file `statements.sql` in the folder of the code that runs them.

A statement begins with `-- name: close_turn`, as in aiosql, whose own loader needs a driver's connection where we have
sessions; comments follow that give reasons, and a semicolon ends it. Code says `statements.close_turn`, and passes
parameters by name. The text never changes, so that each connection plans a statement once.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import TextClause
    from sqlalchemy.types import TypeEngine

FILE = "statements.sql"
NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
PARAMETER = re.compile(r"(?<![:\w]):(\w+)")
COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)


class Statements:
    """The statements of one file, each an attribute; `types` are those of parameters by name."""

    def __init__(self, texts: Mapping[str, str], types: "Mapping[str, TypeEngine[Any]]") -> None:
        self._texts = texts
        self._types = types

    def __getattr__(self, name: str) -> "TextClause":
        """Return a statement, which is made once."""
        # Not at the top: commands of the terminal that run none start without SQLAlchemy, and in half the time.
        from sqlalchemy import bindparam, text

        if name not in self._texts:
            raise AttributeError(f"{FILE} has no statement named {name}")
        sql = self._texts[name]
        names = self._types.keys() & PARAMETER.findall(sql)
        statement = text(sql).bindparams(*(bindparam(name, type_=self._types[name]) for name in names))
        setattr(self, name, statement)
        return statement


def load_statements(python_file: str, types: "Mapping[str, TypeEngine[Any]] | None" = None) -> Statements:
    """Return the statements beside a Python file; `types` are those of parameters whose type Postgres can't know.

    Raises `ValueError` when two have one name.
    """
    path = Path(python_file).with_name(FILE)
    _, *parts = NAME.split(path.read_text("utf-8"))
    names, bodies = parts[::2], parts[1::2]
    if len(set(names)) < len(names):
        raise ValueError(f"{path} has two statements of one name")
    texts = {name: COMMENT.sub("", body).strip().removesuffix(";") for name, body in zip(names, bodies, strict=True)}
    return Statements(texts, types or {})
