"""Recall: which memories have to do with a question, by words (BM25) and, with an embedder, by vectors.

Both are asked about the text alone and about the text with its two neighbours (its window). The four scores are scaled
and added: ranks, as reciprocal rank fusion takes them, were worse than BM25 alone.
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.elements import TextClause

from shared.memory.embeddings import Embedded
from shared.memory.visibility import Visibility, prepare


@dataclass(frozen=True, slots=True)
class Weights:
    """What each score counts; to be measured again for another kind of embedder."""

    words_turn: float = 1.0
    words_window: float = 1.0
    vector_turn: float = 1.0
    vector_window: float = 1.0
    speaker_boost: float = 0.5
    saturation: float = 1.2
    length: float = 0.75


WEIGHTS = Weights()
# A question's rarest words decide; how rare a word is, is counted up to here.
RAREST_WORDS = 12
COUNTED_UP_TO = 2000
# As many as the words find go into the sum with the vectors.
CANDIDATES = 200


@dataclass(frozen=True, slots=True)
class RecalledMemory:
    """A memory that has to do with the question."""

    id: int
    content: str
    scope: str
    said_at: datetime
    score: float


@dataclass(frozen=True, slots=True)
class Found:
    """What the words found: how many memories there are to see, how many have vectors, the best ones with scores."""

    stored: int
    embedded: int
    best: tuple[RecalledMemory, ...]
    scores: dict[int, float]

    @property
    def has_vectors(self) -> bool:
        """Return whether vectors can speak: a few new memories may lack theirs, but not most of them."""
        return self.embedded > 0 and self.stored - self.embedded <= max(3, self.stored // 10)


# Tokens of embeddings go on the ledger in the statement that uses them.
CHARGE = """
    charged AS (
        UPDATE users SET tokens_used_this_month = tokens_used_this_month + :tokens WHERE id = :user_id
    ), logged AS (
        INSERT INTO token_logs (user_id, conversation_id, purpose, model, input_tokens, cost_estimate)
        VALUES (:user_id, :conversation_id, 'embedding', :model, :tokens, :cost)
    )"""

VISIBLE = """
    visible AS MATERIALIZED (
        SELECT id, said_at, speaker, turn_length, window_length, vector_model FROM memories WHERE {condition}
    )"""

BY_WORDS = """
WITH {visible}, totals AS (
    SELECT count(*) AS stored, count(*) FILTER (WHERE vector_model = :model) AS embedded,
           greatest(avg(turn_length), 1)::float8 AS turn, greatest(avg(window_length), 1)::float8 AS around,
           count(window_length) AS windows
    FROM visible
), question AS (
    SELECT DISTINCT coalesce((ts_lexize('english_stem', word))[1], word) AS term FROM unnest(:words) AS word
), rarest AS (
    SELECT term FROM question CROSS JOIN LATERAL (
        SELECT count(*) AS found FROM (
            SELECT FROM memory_postings AS p
            WHERE p.user_id = :user_id AND p.term = question.term AND p.kind = 'turn' LIMIT {counted_up_to}
        ) AS counted
    ) AS counts
    WHERE found > 0 ORDER BY found, term LIMIT {rarest_words}
), hits AS (
    SELECT v.id, p.kind, p.tf, CASE p.kind WHEN 'turn' THEN v.turn_length ELSE v.window_length END AS length,
           count(*) OVER (PARTITION BY p.kind, p.term)::float8 AS df
    FROM rarest AS r
    JOIN memory_postings AS p ON p.user_id = :user_id AND p.term = r.term
    JOIN visible AS v ON v.id = p.memory_id
), gains AS (
    SELECT h.id, h.kind,
           ln(1 + (CASE h.kind WHEN 'turn' THEN t.stored ELSE t.windows END::float8 - h.df + 0.5) / (h.df + 0.5))
           * h.tf * (:saturation + 1)
           / (h.tf + :saturation * (1 - :length + :length * h.length
                                    / CASE h.kind WHEN 'turn' THEN t.turn ELSE t.around END)) AS gain
    FROM hits AS h CROSS JOIN totals AS t
), scored AS (
    SELECT id, coalesce(sum(gain) FILTER (WHERE kind = 'turn'), 0) AS turn,
           coalesce(sum(gain) FILTER (WHERE kind = 'window'), 0) AS around
    FROM gains GROUP BY id
    UNION ALL
    SELECT id, 0::float8, 0::float8 FROM visible WHERE cardinality(:words) = 0
), ranked AS (
    SELECT v.id, v.said_at,
           coalesce(s.turn / nullif(max(s.turn) OVER (), 0), 0)
           * (:words_turn + CASE WHEN v.window_length IS NULL THEN :words_window ELSE 0 END)
           + coalesce(s.around / nullif(max(s.around) OVER (), 0), 0) * :words_window
           + CASE WHEN string_to_array(lower(v.speaker), ' ') && :words THEN :speaker_boost ELSE 0 END AS score
    FROM scored AS s JOIN visible AS v ON v.id = s.id
    ORDER BY score DESC, v.said_at DESC, v.id DESC LIMIT :candidates
), best AS (
    SELECT r.*, row_number() OVER (ORDER BY r.score DESC, r.said_at DESC, r.id DESC) AS place FROM ranked AS r
)
SELECT t.stored, t.embedded, b.id, b.said_at, b.score, m.scope, m.content
FROM totals AS t
LEFT JOIN best AS b ON true
LEFT JOIN memories AS m ON m.id = b.id AND m.user_id = :user_id AND b.place <= :k
ORDER BY b.place
"""

BY_VECTORS = """
WITH {charge}, {visible}, words AS (
    SELECT * FROM unnest(:ids, :scores) AS word (id, score)
), near AS (
    SELECT v.id, v.window_length IS NULL AS is_alone,
           max(nullif(1 - (e.embedding <=> CAST(:vector AS halfvec)), 'NaN')) FILTER (WHERE e.kind = 'turn') AS turn,
           max(nullif(1 - (e.embedding <=> CAST(:vector AS halfvec)), 'NaN')) FILTER (WHERE e.kind = 'window') AS around
    FROM memory_vectors AS e JOIN visible AS v ON v.id = e.memory_id
    WHERE e.user_id = :user_id AND e.model = :model AND e.kind IN ('turn', 'window')
          AND vector_dims(e.embedding) = :dimensions
    GROUP BY v.id, v.window_length IS NULL
), scaled AS (
    SELECT id, is_alone,
           coalesce((turn - min(turn) OVER ()) / nullif(max(turn) OVER () - min(turn) OVER (), 0), 0.5) AS turn,
           coalesce((around - min(around) OVER ())
                    / nullif(max(around) OVER () - min(around) OVER (), 0), 0.5) AS around
    FROM near
), summed AS (
    SELECT id, CASE WHEN is_alone THEN turn * (:vector_turn + :vector_window)
                    ELSE turn * :vector_turn + around * :vector_window END AS score
    FROM scaled
), ranked AS (
    -- One whose vectors are still missing is held for average.
    SELECT v.id, v.said_at,
           coalesce(w.score, 0) + coalesce(s.score, avg(s.score) OVER (), 0) AS score
    FROM visible AS v LEFT JOIN summed AS s ON s.id = v.id LEFT JOIN words AS w ON w.id = v.id
    ORDER BY score DESC, v.said_at DESC, v.id DESC LIMIT :k
)
SELECT r.id, m.content, m.scope, r.said_at, r.score
FROM ranked AS r JOIN memories AS m ON m.id = r.id AND m.user_id = :user_id
ORDER BY r.score DESC, r.said_at DESC, r.id DESC
"""


@lru_cache
def by_words(condition: str) -> TextClause:
    """Return the statement for what a place sees."""
    visible = VISIBLE.format(condition=condition)
    return prepare(BY_WORDS.format(visible=visible, rarest_words=RAREST_WORDS, counted_up_to=COUNTED_UP_TO))


@lru_cache
def by_vectors(condition: str) -> TextClause:
    """Return the statement for what a place sees."""
    return prepare(BY_VECTORS.format(charge=CHARGE, visible=VISIBLE.format(condition=condition)))


async def find_by_words(
    session: AsyncSession, visibility: Visibility, words: list[str], k: int, model: str | None
) -> Found:
    """Return what has to do with these words, all in one statement; without any word the newest are the best."""
    statement = by_words(visibility.condition)
    given = asdict(WEIGHTS) | visibility.parameters
    given |= {"words": words, "k": k, "model": model, "candidates": k if model is None else max(k, CANDIDATES)}
    rows = (await session.execute(statement, given)).all()
    best = [
        RecalledMemory(row.id, row.content, row.scope, row.said_at, float(row.score))
        for row in rows
        if row.content is not None
    ]
    scores = {row.id: float(row.score) for row in rows if row.id is not None}
    return Found(rows[0].stored, rows[0].embedded, tuple(best), scores)


async def find_by_vectors(
    session: AsyncSession,
    visibility: Visibility,
    found: Found,
    question: Embedded,
    model: str,
    *,
    k: int,
    conversation_id: int | None,
) -> list[RecalledMemory]:
    """Return the best by words and vectors together, and put the question's tokens on the ledger, in one statement."""
    statement = by_vectors(visibility.condition)
    given = asdict(WEIGHTS) | visibility.parameters
    given |= {"ids": list(found.scores), "scores": list(found.scores.values()), "model": model, "k": k}
    given |= {"vector": to_halfvec(question.vectors[0]), "dimensions": len(question.vectors[0])}
    given |= {"tokens": question.usage.input_tokens, "cost": question.usage.cost, "conversation_id": conversation_id}
    rows = (await session.execute(statement, given)).all()
    return [RecalledMemory(row.id, row.content, row.scope, row.said_at, float(row.score)) for row in rows]


def to_halfvec(vector: tuple[float, ...]) -> str:
    """Return the vector as pgvector reads it."""
    return "[" + ",".join(f"{number:.6g}" for number in vector) + "]"
