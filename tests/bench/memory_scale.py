"""A million made-up memories of many persons, and how long recall takes for persons with few and with many of them.

With an embedder, those whose recall is measured have vectors, too: random ones, because only their number counts here.
"""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import asyncpg

from shared.db.database import Address
from shared.memory.memories import Memories, NewMemory, Origin
from shared.messages import Place
from tests.bench.load import percentile
from tests.support.connections import connected

PLACE = Place("bench", None, "direct", is_direct=True)
VOCABULARY = 20_000
WORDS_EACH = 9

# Words follow Zipf's law, like those of a language. Without triggers and checks, which would take minutes.
MAKE = """
SET session_replication_role = replica;
SET synchronous_commit = off;
CREATE TEMPORARY TABLE owners AS SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS o (user_id, count);
INSERT INTO memory_scopes (scope, user_id, memories, words)
SELECT 'private', user_id, count, count * {each} FROM owners;
INSERT INTO memories (user_id, scope, scope_id, platform, content, source, is_indexed, ordinal, turn_length,
                      window_length, said_at)
SELECT o.user_id, 'private', s.id, 'bench', 'memory ' || n, 'turn', true, (1::bigint << 31) + n, {each},
       3 * {each}, now() - (o.count - n) * interval '1 minute'
FROM owners AS o JOIN memory_scopes AS s ON s.user_id = o.user_id CROSS JOIN LATERAL generate_series(1, o.count) AS n;
INSERT INTO memory_words (scope_id, term, ordinal, memory_id, tf, length, said_at)
SELECT DISTINCT ON (m.scope_id, term, m.ordinal)
       m.scope_id, 'w' || floor(exp(random() * ln({words})))::int AS term, m.ordinal, m.id, 1, {each}, m.said_at
FROM memories AS m CROSS JOIN generate_series(1, {each})
ORDER BY m.scope_id, term, m.ordinal;
RESET session_replication_role
"""

# A vector is the sum of two out of a pool: making each of 100 million numbers at random would take minutes.
MAKE_VECTORS = """
SET session_replication_role = replica;
SET synchronous_commit = off;
CREATE TEMPORARY TABLE pool AS
SELECT n, array_agg(random() - 0.5)::halfvec AS vector
FROM generate_series(0, 1999) AS n, generate_series(1, (SELECT dimensions FROM embedding_models)) GROUP BY n;
ANALYZE pool;
INSERT INTO memory_vectors (user_id, scope_id, model, kind, memory_id, embedding)
SELECT m.user_id, m.scope_id, e.model, k.kind, m.id, a.vector + b.vector
FROM memories AS m CROSS JOIN embedding_models AS e CROSS JOIN (VALUES ('turn', 0), ('window', 1)) AS k (kind, n)
JOIN pool AS a ON a.n = (2 * m.id + k.n) % 2000 JOIN pool AS b ON b.n = (2 * m.id + k.n) / 2000 % 1999
WHERE m.user_id = ANY ($1::bigint[]) ORDER BY m.id;
UPDATE memories SET vector_model = (SELECT model FROM embedding_models) WHERE user_id = ANY ($1::bigint[]);
UPDATE memory_scopes SET vector_model = (SELECT model FROM embedding_models) WHERE user_id = ANY ($1::bigint[]);
RESET session_replication_role
"""


@dataclass(frozen=True, slots=True)
class Owner:
    """A person and how many memories they have."""

    user_id: int
    count: int


@dataclass(frozen=True, slots=True)
class Latency:
    """How long a recall takes, in milliseconds."""

    count: int
    p50: float
    p95: float
    p99: float


async def make_memories(address: Address, counts: Sequence[int]) -> list[Owner]:
    """Store memories of as many persons as counts are given."""
    async with connected(address) as connection:
        rows = await connection.fetch(
            "INSERT INTO users (has_memories) SELECT true FROM generate_series(1, $1) RETURNING id", len(counts)
        )
        owners = [Owner(row["id"], count) for row, count in zip(rows, counts, strict=True)]
        for statement in MAKE.format(words=VOCABULARY, each=WORDS_EACH).split(";\n"):
            parameters = ([owner.user_id for owner in owners], list(counts)) if "$1" in statement else ()
            await connection.execute(statement, *parameters)
        await _vacuum(connection)
        return owners


async def make_vectors(address: Address, memories: Memories, owners: Sequence[Owner]) -> None:
    """Store vectors of the embedder's model for all memories of these persons, and make the indexes they need."""
    # A single memory that is really embedded makes the model and its dimensions known.
    await memories.of_user(owners[0].user_id, PLACE, None).remember("Ann likes tea.")
    async with connected(address) as connection:
        await connection.execute("DELETE FROM memory_vectors")
        for statement in MAKE_VECTORS.split(";\n"):
            parameters = ([owner.user_id for owner in owners],) if "$1" in statement else ()
            await connection.execute(statement, *parameters)
        await _vacuum(connection)
    await memories.build_vector_indexes()


async def _vacuum(connection: asyncpg.Connection) -> None:
    for table in ("memories", "memory_words", "memory_scopes", "memory_vectors"):
        await connection.execute(f"VACUUM (ANALYZE) {table}")


async def measure_recall(memories: Memories, owner: Owner, runs: int) -> Latency:
    """Recall with different questions of six words."""
    memory = memories.of_user(owner.user_id, PLACE, None)
    seconds = []
    for question in questions(runs + 5):
        start = time.perf_counter()
        await memory.recall(question)
        seconds.append(time.perf_counter() - start)
    # The first ones warm the caches.
    sample = tuple(seconds[5:])
    return Latency(owner.count, *(1000 * percentile(sample, share) for share in (50, 95, 99)))


def questions(count: int) -> Iterator[str]:
    """Yield questions, the same in each run."""
    chosen = random.Random(7)  # noqa: S311  # no secret
    for _ in range(count):
        yield " ".join(f"w{int(VOCABULARY ** chosen.random())}" for _ in range(6))


async def measure_inserts(memories: Memories, user_id: int, count: int, *, batch: int = 250) -> float:
    """Return how many memories a second are stored in batches, with their words."""
    chosen = random.Random(11)  # noqa: S311  # no secret
    now = datetime.now(UTC)
    rows = [
        NewMemory(
            user_id,
            Origin(PLACE),
            " ".join(f"w{int(VOCABULARY ** chosen.random())}" for _ in range(15)),
            said_at=now,
        )
        for _ in range(count)
    ]
    start = time.perf_counter()
    for begin in range(0, count, batch):
        await memories.add(rows[begin : begin + batch])
    return count / (time.perf_counter() - start)
