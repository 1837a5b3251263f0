"""Named SQL statements, from the file `statements.sql` in the folder of the code that runs them.

A statement begins with `-- name: close_turn`, as in aiosql, whose own loader needs a driver's connection where we have
sessions; comments follow that give reasons, and a semicolon ends it. Code says `statements.close_turn`, and passes
parameters by name. The text never changes, so that each connection plans a statement once.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import TextClause
else:
    # Our sessions take a statement as one. SQLAlchemy is imported only where a session runs one: commands of the
    # terminal run a few by the driver, and start without it in half the time.
    TextClause = object

FILE = "statements.sql"
NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
# Behind a backslash it is a colon.
PARAMETER = re.compile(r"(?<![:\w\\]):(\w+)")
COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)


class Statement(TextClause):
    """One statement: for SQLAlchemy's sessions a text, for the driver `numbered` with the values of `names`."""

    def __init__(self, text: str, types: Mapping[str, str] = MappingProxyType({})) -> None:
        self.text = text
        self.types = types
        # As SQLAlchemy takes it: made by the first session that runs it, and gone with it.
        self.clause: TextClause | None = None
        self.names = tuple(dict.fromkeys(PARAMETER.findall(text)))
        casts = {name: f"::{type_}" for name, type_ in types.items()}
        places = {name: f"${number}{casts.get(name, '')}" for number, name in enumerate(self.names, start=1)}
        self.numbered = PARAMETER.sub(lambda match: places[match[1]], text).replace("\\:", ":")

    def __str__(self) -> str:
        return self.text


class Statements:
    """The statements of one file, each an attribute; `types` are those of parameters, in Postgres' words."""

    def __init__(self, texts: Mapping[str, str], types: Mapping[str, str]) -> None:
        self._texts = texts
        self._types = types

    def __getattr__(self, name: str) -> Statement:
        """Return a statement, which is made once."""
        if name not in self._texts:
            raise AttributeError(f"{FILE} has no statement named {name}")
        sql = COMMENT.sub("", self._texts[name]).strip().removesuffix(";")
        names = self._types.keys() & PARAMETER.findall(sql)
        statement = Statement(sql, {name: self._types[name] for name in names})
        setattr(self, name, statement)
        return statement


def load_statements(python_file: str, types: Mapping[str, str] | None = None) -> Statements:
    """Return the statements beside a Python file; `types` are those of parameters whose type Postgres can't know.

    Raises `ValueError` when two have one name.
    """
    path = Path(python_file).with_name(FILE)
    parts = _split(path.read_text("utf-8"))
    texts = dict(parts)
    if len(texts) < len(parts):
        raise ValueError(f"{path} has two statements of one name")
    return Statements(texts, types or {})


@cache
def _split(text: str) -> Sequence[tuple[str, str]]:
    """Return the statements of a file, which often belong to several files of Python, by name, with their comments."""
    _, *parts = NAME.split(text)
    return list(zip(parts[::2], parts[1::2], strict=True))
