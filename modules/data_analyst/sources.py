"""Finds the sources that a person may use."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from modules.data_analyst.duckdb_engine import FileSource
from modules.data_analyst.postgres_engine import PostgresSource
from modules.data_analyst.queries import Query, Relation
from modules.data_analyst.settings import AnalystSettings
from modules.data_analyst.tables import Rows
from shared.credentials.row_secrets import filled_in
from shared.db.statements import load_statements
from shared.errors import ToolError
from shared.messages import Permission
from shared.tools import ToolContext

statements = load_statements(__file__)

PREFIX = "DATA_ANALYST_"


class Source(Struct, frozen=True):
    """A table, a view or a file that people may ask about, as an admin has named it."""

    name: str
    description: str
    kind: str
    url: str | None
    password: str | None
    relation: str | None
    path: str | None
    allow_sql: bool
    allowed_roles: Sequence[str]


class Engine(Protocol):
    """What runs the questions to one source."""

    async def describe(self) -> Relation:
        """Return its name in SQL and its columns."""
        ...

    async def fetch(self, query: Query, limit: int) -> Rows:
        """Return the first rows of a query."""
        ...

    async def export(self, query: Query, folder: Path, side: str) -> dict[str, Any]:
        """Return one side of a comparison, as the join reads it."""
        ...


async def list_sources_for(context: ToolContext) -> list[Source]:
    """Return the sources that the person may use, by name."""
    async with context.transaction() as session:
        rows = (await session.execute(statements.list_sources)).all()
    sources, permission = (Source(*row) for row in rows), context.user.permission
    return [source for source in sources if permission >= min(map(Permission.from_label, source.allowed_roles))]


async def get_source(context: ToolContext, name: str) -> Source:
    """Return the source; raises `ToolError` with the available ones when there is none that the person may use."""
    sources = await list_sources_for(context)
    for source in sources:
        if source.name == name.strip().lower():
            return source
    raise ToolError(f"There is no source {name[:80]}.", available_sources=[source.name for source in sources])


def open_engine(context: ToolContext, source: Source) -> Engine:
    """Return the engine of a source; raises `Unavailable` when its password is not set."""
    settings = context.settings(AnalystSettings)
    if source.kind == "file":
        return FileSource(source.name, source.path or "", settings, files=context.storage)
    password = None if source.password is None else filled_in({"password": source.password}, PREFIX)["password"]
    return PostgresSource(
        source.name, source.url or "", password=password, relation=source.relation or "", settings=settings
    )
