"""Search in memories: by words (BM25) and, with an embedder, by vectors.

Both score the text alone and the text with its two neighbours (its window). The four scores are normalised and added;
in our measurements, reciprocal rank fusion was worse than BM25 alone.
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
    """The weight of each score and the parameters of BM25, measured; another kind of embedder needs other ones."""

    words_turn: float = 1.0
    words_window: float = 1.0
    vector_turn: float = 1.0
    vector_window: float = 1.0
    speaker_boost: float = 0.5
    saturation: float = 1.2
    length: float = 0.75


WEIGHTS = Weights()
# Only the rarest words of a query are searched for.
MAX_QUERY_WORDS = 12
# A word's document frequency is counted up to here; beyond it all words count as equally common.
MAX_COUNTED_POSTINGS = 2000
# How many results of the search by words are combined with the vector scores.
MAX_CANDIDATES = 200


@dataclass(frozen=True, slots=True)
class RecalledMemory:
    """A memory that matches the query; a higher score is a better match."""

    id: int
    content: str
    scope: str
    said_at: datetime
    score: float


@dataclass(frozen=True, slots=True)
class WordMatches:
    """The result of the search by words.

    `stored` counts the visible memories, `embedded` those of them with vectors of the current model; `scores` has the
    scores of all candidates by memory id, `best` the first `limit` of them. `model` is the embedding model.
    """

    stored: int
    embedded: int
    best: tuple[RecalledMemory, ...]
    scores: dict[int, float]
    limit: int
    model: str | None

    @property
    def has_vectors(self) -> bool:
        """Tell whether enough memories have vectors to rank by: all but 3 of them, or all but 10 %."""
        return self.embedded > 0 and self.stored - self.embedded <= max(3, self.stored // 10)


# Charges the tokens of an embedding, in the same statement that uses the vectors.
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
    -- A memory without vectors gets the average score.
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
    """Return the statement of the search by words, over the memories that meet `condition`."""
    visible = VISIBLE.format(condition=condition)
    return prepare(BY_WORDS.format(visible=visible, rarest_words=MAX_QUERY_WORDS, counted_up_to=MAX_COUNTED_POSTINGS))


@lru_cache
def by_vectors(condition: str) -> TextClause:
    """Return the statement of the search by vectors, over the memories that meet `condition`."""
    return prepare(BY_VECTORS.format(charge=CHARGE, visible=VISIBLE.format(condition=condition)))


async def find_by_words(
    session: AsyncSession, visibility: Visibility, words: list[str], k: int, model: str | None
) -> WordMatches:
    """Search by words in one statement; without any word, the newest memories are the best."""
    statement = by_words(visibility.condition)
    parameters = asdict(WEIGHTS) | visibility.parameters
    parameters |= {"words": words, "k": k, "model": model, "candidates": k if model is None else max(k, MAX_CANDIDATES)}
    rows = (await session.execute(statement, parameters)).all()
    best = [
        RecalledMemory(row.id, row.content, row.scope, said_at=row.said_at, score=float(row.score))
        for row in rows
        if row.content is not None
    ]
    scores = {row.id: float(row.score) for row in rows if row.id is not None}
    return WordMatches(rows[0].stored, rows[0].embedded, tuple(best), scores=scores, limit=k, model=model)


async def find_by_vectors(
    session: AsyncSession,
    visibility: Visibility,
    found: WordMatches,
    query: Embedded,
    conversation_id: int | None,
) -> list[RecalledMemory]:
    """Return the best of them by words and vectors together, and charge the query's tokens, in one statement."""
    statement = by_vectors(visibility.condition)
    parameters = asdict(WEIGHTS) | visibility.parameters
    parameters |= {
        "ids": list(found.scores),
        "scores": list(found.scores.values()),
        "model": found.model,
        "k": found.limit,
    }
    parameters |= {"vector": to_halfvec(query.vectors[0]), "dimensions": len(query.vectors[0])}
    usage = query.usage
    parameters |= {"tokens": usage.input_tokens, "cost": usage.cost, "conversation_id": conversation_id}
    rows = (await session.execute(statement, parameters)).all()
    return [RecalledMemory(row.id, row.content, row.scope, said_at=row.said_at, score=float(row.score)) for row in rows]


def to_halfvec(vector: tuple[float, ...]) -> str:
    """Return the vector in pgvector's text format."""
    return "[" + ",".join(f"{number:.6g}" for number in vector) + "]"
