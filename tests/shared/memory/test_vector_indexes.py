"""Vector indexes of scopes with very many memories."""

import gc

import asyncpg
import pytest
from sqlalchemy import text

from shared.db.database import Database
from shared.db.statements import Statement
from shared.memory.memories import Memories
from shared.memory.vector_indexes import PREFIX, build_vector_indexes, find_nearest
from shared.memory.visibility import Visibility, act_in
from tests.shared.memory.test_memories import HOME
from tests.support.filing import add_user

# A name with everything that would have to be quoted.
MODEL = "it's:a model"
VECTORS = """
INSERT INTO embedding_models (model, dimensions) VALUES ('it''s:a model', 3);
INSERT INTO memories (user_id, content) SELECT id, 'memory ' || n FROM users, generate_series(1, 300) AS n;
INSERT INTO memory_vectors (user_id, model, kind, memory_id, embedding)
SELECT user_id, 'it''s:a model', kind, id, format('[%s,%s,1]', id % 17, id % 13)::halfvec
FROM memories, (VALUES ('turn'), ('window')) AS kinds (kind);
UPDATE memory_scopes SET memories = 300, words = 300, vector_model = 'it''s:a model'
"""


async def index_names(database: Database) -> list[str]:
    async with database.transaction() as session:
        result = await session.execute(
            text("SELECT relname FROM pg_class WHERE starts_with(relname, :prefix) ORDER BY 1"), {"prefix": PREFIX}
        )
        return list(result.scalars())


async def test_a_large_scope_gets_indexes_that_find_what_an_exact_search_finds(
    memories: Memories, database: Database, owner: asyncpg.Connection, ann: int
) -> None:
    await owner.execute(VECTORS)
    [scope_id] = [row["id"] for row in await owner.fetch("SELECT id FROM memory_scopes")]
    exact = await owner.fetch(
        "SELECT DISTINCT embedding <=> '[3,4,1]' AS distance FROM memory_vectors ORDER BY 1 LIMIT 1"
    )

    assert await build_vector_indexes(database) == 0
    assert await build_vector_indexes(database, large=100) == 2
    assert await build_vector_indexes(database, large=100) == 0
    assert len(await index_names(database)) == 2
    async with database.transaction() as session:
        await act_in(session, Visibility(ann, HOME))
        near = await find_nearest(session, [scope_id], model=MODEL, vector="[3,4,1]", dimensions=3)
        result = await session.execute(
            text("SELECT min(embedding <=> '[3,4,1]') FROM memory_vectors WHERE memory_id = ANY (:ids)"),
            {"ids": near[scope_id]},
        )
        assert result.scalar_one() == pytest.approx(exact[0]["distance"])


async def test_searches_by_an_index_leave_nothing_in_the_process(
    memories: Memories, database: Database, owner: asyncpg.Connection, ann: int
) -> None:
    await owner.execute(VECTORS)
    [scope_id] = [row["id"] for row in await owner.fetch("SELECT id FROM memory_scopes")]
    await build_vector_indexes(database, large=100)
    counts = []
    for _ in range(3):
        async with database.transaction() as session:
            await act_in(session, Visibility(ann, HOME))
            await find_nearest(session, [scope_id], model=MODEL, vector="[3,4,1]", dimensions=3)
        gc.collect()
        counts.append(sum(isinstance(item, Statement) for item in gc.get_objects()))

    assert counts == counts[:1] * 3


async def test_nobody_finds_by_an_index_what_is_not_theirs(
    memories: Memories, database: Database, owner: asyncpg.Connection, ann: int
) -> None:
    await owner.execute(VECTORS)
    [scope_id] = [row["id"] for row in await owner.fetch("SELECT id FROM memory_scopes")]
    await build_vector_indexes(database, large=100)
    bob = await add_user(database)

    async with database.transaction() as session:
        await act_in(session, Visibility(bob, HOME))
        near = await find_nearest(session, [scope_id], model=MODEL, vector="[3,4,1]", dimensions=3)

    assert near == {scope_id: []}


async def test_indexes_that_are_not_wanted_any_more_are_dropped(
    database: Database, owner: asyncpg.Connection, ann: int
) -> None:
    await owner.execute(VECTORS)
    await build_vector_indexes(database, large=100)
    await owner.execute("UPDATE memory_scopes SET memories = 50")

    assert await build_vector_indexes(database, large=100) == 0
    assert await index_names(database) == []
    async with database.transaction() as session:
        await act_in(session, Visibility(ann, HOME))
        assert await find_nearest(session, [1], model=MODEL, vector="[3,4,1]", dimensions=3) == {}


async def test_without_an_embedder_no_index_is_made(memories: Memories) -> None:
    assert await memories.build_vector_indexes() == 0
