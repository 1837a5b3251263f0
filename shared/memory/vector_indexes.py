"""Vector indexes of scopes with very many memories, made in the background.

Up to `LARGE` memories, each with two vectors, scanning a scope's range of the covering index is exact, and takes a
microsecond a vector. Beyond, each scope gets indexes of its own: one for all would be slow to build and slowest for
persons with few memories. The planner uses such an index only for a statement that has its scope, model and kind as
literal values.
"""

from collections.abc import Sequence
from zlib import crc32

import asyncpg
from msgspec import Struct

from shared.db.database import Database
from shared.db.driver import Session, to_sql
from shared.db.statements import Statement, load_statements
from shared.log import get_logger
from shared.memory.parameters import TYPES

statements = load_statements(__file__, TYPES)

LARGE = 10_000
NEAREST = 100
KINDS = ("turn", "window")
PREFIX = "memory_vectors_hnsw_"
# An arbitrary number, the same in all processes: one of them builds.
BUILD_LOCK = 7_209_534_103

log = get_logger()


class VectorIndex(Struct, frozen=True):
    """The index of a scope's vectors of one kind; `quoted` is the model's name as an SQL literal."""

    scope_id: int
    model: str
    dimensions: int
    quoted: str
    kind: str

    @property
    def name(self) -> str:
        """Return the name, which a change of the model changes."""
        return f"{PREFIX}{self.scope_id}_{self.kind}_{crc32(f'{self.model} {self.dimensions}'.encode()):08x}"

    @property
    def condition(self) -> str:
        """Return which rows are in the index, as SQL."""
        return (
            f"scope_id = {self.scope_id} AND model = {self.quoted} AND kind = '{self.kind}'"
            f" AND vector_dims(embedding) = {self.dimensions}"
        )

    @property
    def creation(self) -> str:
        """Return the statement that makes it."""
        return (
            f"CREATE INDEX CONCURRENTLY {self.name} ON memory_vectors"
            f" USING hnsw ((embedding::halfvec({self.dimensions})) halfvec_cosine_ops) WHERE {self.condition}"
        )

    @property
    def nearest(self) -> str:
        """Return the query of the nearest memories."""
        cast = f"CAST(%s AS halfvec({self.dimensions}))"
        return (
            f"(SELECT memory_id FROM memory_vectors WHERE {self.condition}"  # noqa: S608 - numbers, and a quoted name
            f" ORDER BY {cast % 'embedding'} <=> {cast % ':vector'} LIMIT {NEAREST})"
        )


async def build_vector_indexes(database: Database, *, large: int = LARGE) -> int:
    """Make the indexes that are missing, drop those that are no longer wanted, and return how many were made.

    One process does it at a time. Only the tables' owner may: where `DATABASE_URL` names another role, nothing is done.
    """
    try:
        async with database.owner() as connection:
            return await _build(connection, large)
    except asyncpg.InsufficientPrivilegeError as error:
        log.warning("vector_indexes_need_the_owner", cause=str(error))
        return 0


async def _build(connection: asyncpg.Connection, large: int) -> int:
    if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", BUILD_LOCK):
        return 0
    rows = await connection.fetch(to_sql(statements.list_large_scopes), large)
    indexes = {
        index.name: index
        for row in rows
        for kind in KINDS
        for index in [VectorIndex(row["id"], row["model"], row["dimensions"], quoted=row["quoted"], kind=kind)]
    }
    rows = await connection.fetch(to_sql(statements.list_indexes), PREFIX)
    present = {row["name"]: row["is_valid"] for row in rows}
    # A build that was interrupted leaves an index that is not valid.
    for name, is_valid in present.items():
        if name not in indexes or not is_valid:
            await connection.execute(f"DROP INDEX CONCURRENTLY {name}")
    missing_indexes = [index for name, index in indexes.items() if not present.get(name)]
    if missing_indexes:
        await connection.execute("SET maintenance_work_mem = '256MB'")
    for index in missing_indexes:
        await connection.execute(index.creation)
        log.info("vector_index_built", scope_id=index.scope_id, kind=index.kind)
    return len(missing_indexes)


async def find_nearest(
    session: Session, scope_ids: Sequence[int], *, model: str, vector: str, dimensions: int
) -> dict[int, list[int]]:
    """Return the memories nearest to a vector by scope, of those scopes whose indexes are ready."""
    quoted = str((await session.execute(statements.quote_model, {"model": model})).scalar_one())
    indexes = {
        scope_id: [VectorIndex(scope_id, model, dimensions, quoted=quoted, kind=kind) for kind in KINDS]
        for scope_id in scope_ids
    }
    names = [index.name for both in indexes.values() for index in both]
    usable = set((await session.execute(statements.list_usable_indexes, {"names": names})).scalars())
    ids_by_scope: dict[int, list[int]] = {}
    for scope_id, both in indexes.items():
        if usable.issuperset(index.name for index in both):
            # A colon in a model's name is no parameter.
            query = " UNION ALL ".join(index.nearest for index in both).replace(quoted, quoted.replace(":", "\\:"))
            nearest = Statement(query, {"vector": "text"})
            ids_by_scope[scope_id] = list((await session.execute(nearest, {"vector": vector})).scalars())
    return ids_by_scope
