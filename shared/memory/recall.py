"""Search in memories: by words (BM25) and, with an embedder, by vectors.

Both score the text alone and the text with its two neighbours (its window). The four scores are scaled to their best
and added; in our measurements, reciprocal rank fusion was worse than BM25 alone. Which memories a search may find is
decided by row-level security: the statements have no condition of their own.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from shared.memory.embeddings import Embedded
from shared.memory.vector_indexes import LARGE, find_nearest
from shared.memory.vectors import to_halfvec
from shared.memory.visibility import prepare


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of each score and the parameters of BM25, measured; another kind of embedder needs other ones.

    The boosts are added for a memory of a speaker whom the question names, for what the person asked to remember and
    for other facts; scores of Parley's own answers, which repeat the words of questions, are multiplied by
    `bot_factor`.
    """

    words_turn: float = 1.0
    words_window: float = 1.0
    vector_turn: float = 1.0
    vector_window: float = 1.0
    speaker_boost: float = 0.5
    remembered_boost: float = 0.3
    fact_boost: float = 0.1
    bot_factor: float = 0.8
    saturation: float = 1.2
    length: float = 0.75


WEIGHTS = Weights()
# Only the rarest words of a query are searched for.
MAX_QUERY_WORDS = 12
# A word's memories are counted up to this number, or to a tenth of a scope; all words beyond it count as equally
# common.
LEAST_COUNTED = 1000
# So many places of the rarest words give the candidates; more common words then only add to the scores of these.
MAX_READ = 3000
# How many candidates are scored exactly, and are combined with as many of the search by vectors.
MAX_CANDIDATES = 100
# The words of what is recalled together: first the memories themselves, then their neighbours.
WORD_BUDGET = 200


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The message before or after a recalled one."""

    id: int
    content: str
    speaker: str | None
    is_from_bot: bool


@dataclass(frozen=True, slots=True)
class RecalledMemory:
    """A memory that matches the query; a higher score is a better match.

    `before` and `after` are its neighbours in the conversation, as far as the word budget has room for them.
    """

    id: int
    content: str
    scope: str
    said_at: datetime
    score: float
    source: str = "fact"
    speaker: str | None = None
    is_from_bot: bool = False
    before: Neighbour | None = None
    after: Neighbour | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """What to search for: `words` of the query, `k` results, said `since` and `until`.

    Messages of the conversation from the turn `shown_from` on are left out, because the prompt shows them anyway.
    """

    words: Sequence[str]
    k: int
    since: datetime | None = None
    until: datetime | None = None
    conversation_id: int | None = None
    shown_from: int | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the statements."""
        return asdict(WEIGHTS) | asdict(self) | {"words": list(self.words)}


@dataclass(frozen=True, slots=True)
class WordMatches:
    """The result of the search by words: `best`, the first `k`, and the scores of all candidates by memory id.

    `model` is the embedding model whose vectors most of the visible memories have, None if they have none. `large` are
    the scopes with so many memories that their vectors have indexes of their own.
    """

    search: Search
    model: str | None
    best: tuple[RecalledMemory, ...]
    scores: dict[int, float]
    large: tuple[int, ...] = ()


# Which memories count beside those that row-level security hides.
IS_WANTED = """
    m.superseded_by IS NULL AND (:since IS NULL OR m.said_at >= :since) AND (:until IS NULL OR m.said_at < :until)
    AND (:shown_from IS NULL OR m.source <> 'turn' OR m.turn_id IS NULL OR m.turn_id < :shown_from
         OR m.conversation_id IS DISTINCT FROM :conversation_id)"""

# The columns of the first :k of `ranked`, with the neighbours.
SHOWN = """
    m.content, m.scope, m.said_at, m.source, m.speaker, m.is_from_bot,
    b.id AS before_id, b.content AS before, b.speaker AS before_speaker, b.is_from_bot AS before_is_from_bot,
    a.id AS after_id, a.content AS after, a.speaker AS after_speaker, a.is_from_bot AS after_is_from_bot"""
WITH_NEIGHBOURS = """
LEFT JOIN LATERAL (
    SELECT n.* FROM memories AS n WHERE n.scope_id = m.scope_id AND n.ordinal = m.ordinal - 1 LIMIT 1
) AS b ON true
LEFT JOIN LATERAL (
    SELECT n.* FROM memories AS n WHERE n.scope_id = m.scope_id AND n.ordinal = m.ordinal + 1 LIMIT 1
) AS a ON true"""

# `counted` finds the rarest words; `hits` reads where these occur; `rough` gives each occurrence to the memory itself
# and to both neighbours, whose windows contain it, by scores that ignore the length of windows; `scored` looks all
# words up for the candidates that this gives, and has the exact scores.
BY_WORDS = f"""
WITH scopes AS MATERIALIZED (
    SELECT id, memories, words, vector_model FROM memory_scopes WHERE memories > 0
), totals AS MATERIALIZED (
    SELECT sum(memories)::float8 AS stored, greatest(sum(words) / sum(memories), 1)::float8 AS mean FROM scopes
), question AS MATERIALIZED (
    SELECT DISTINCT coalesce((ts_lexize('english_stem', word))[1], word) AS term FROM unnest(:words) AS word
), counted AS MATERIALIZED (
    SELECT q.term, sum(c.found)::float8 AS df
    FROM question AS q CROSS JOIN scopes AS s CROSS JOIN LATERAL (
        SELECT count(*) AS found FROM (
            SELECT FROM memory_words AS w WHERE w.scope_id = s.id AND w.term = q.term
            LIMIT greatest({LEAST_COUNTED}, s.memories / 10)
        ) AS first_ones
    ) AS c
    GROUP BY q.term HAVING sum(c.found) > 0
), terms AS MATERIALIZED (
    SELECT c.term, row_number() OVER rarest AS place, sum(c.df) OVER rarest AS read,
           ln(1 + (t.stored - c.df + 0.5) / (c.df + 0.5)) AS idf,
           -- A word is in three times as many windows, unless these overlap.
           ln(1 + (0.5 + t.stored * (1 - c.df / t.stored) ^ 3) / (0.5 + t.stored * (1 - (1 - c.df / t.stored) ^ 3)))
               AS window_idf
    FROM counted AS c CROSS JOIN totals AS t
    WINDOW rarest AS (ORDER BY c.df, c.term)
    ORDER BY c.df, c.term LIMIT {MAX_QUERY_WORDS}
), hits AS MATERIALIZED (
    SELECT s.id AS scope_id, w.ordinal,
           t.idf * w.tf / (w.tf + :saturation * (1 - :length + :length * w.length / n.mean)) AS turn,
           t.window_idf * w.tf / (w.tf + :saturation) AS around
    FROM terms AS t CROSS JOIN totals AS n CROSS JOIN scopes AS s CROSS JOIN LATERAL (
        SELECT p.ordinal, p.tf, p.length FROM memory_words AS p
        WHERE p.scope_id = s.id AND p.term = t.term
              AND (:since IS NULL OR p.said_at >= :since) AND (:until IS NULL OR p.said_at < :until)
        ORDER BY p.ordinal DESC LIMIT {MAX_READ}
    ) AS w
    WHERE t.place = 1 OR t.read <= {MAX_READ}
), rough AS MATERIALIZED (
    SELECT h.scope_id, h.ordinal + step AS ordinal, sum(CASE step WHEN 0 THEN h.turn ELSE 0 END + h.around) AS score
    FROM hits AS h CROSS JOIN (VALUES (-1), (0), (1)) AS steps (step)
    WHERE step = 0 OR h.ordinal < 4611686018427387904
    GROUP BY 1, 2 ORDER BY score DESC, 2 DESC LIMIT 3 * {MAX_CANDIDATES}
), candidates AS MATERIALIZED (
    SELECT r.scope_id, r.ordinal, m.id, m.said_at, m.speaker, m.source, m.is_from_bot, m.window_length
    FROM rough AS r CROSS JOIN LATERAL (
        SELECT m.* FROM memories AS m WHERE m.scope_id = r.scope_id AND m.ordinal = r.ordinal AND {IS_WANTED} LIMIT 1
    ) AS m
    LIMIT {MAX_CANDIDATES}
), scored AS MATERIALIZED (
    SELECT c.*, coalesce(p.turn, 0) AS turn, coalesce(p.around, 0) AS around
    FROM candidates AS c CROSS JOIN LATERAL (
        SELECT sum(t.idf * i.tf / (i.tf + :saturation * (1 - :length + :length * i.length / n.mean))) AS turn,
               sum(t.window_idf * i.window_tf
                   / (i.window_tf + :saturation * (1 - :length + :length * c.window_length / (3 * n.mean)))) AS around
        FROM terms AS t CROSS JOIN totals AS n CROSS JOIN LATERAL (
            SELECT sum(p.tf) FILTER (WHERE p.ordinal = c.ordinal) AS tf,
                   max(p.length) FILTER (WHERE p.ordinal = c.ordinal) AS length, sum(p.tf) AS window_tf
            FROM memory_words AS p
            WHERE p.scope_id = c.scope_id AND p.term = t.term AND p.ordinal BETWEEN c.ordinal - 1 AND c.ordinal + 1
        ) AS i
    ) AS p
), ranked AS (
    SELECT c.id, c.said_at,
           (coalesce(c.turn / nullif(max(c.turn) OVER (), 0), 0)
            * (:words_turn + CASE WHEN c.window_length IS NULL THEN :words_window ELSE 0 END)
            + coalesce(c.around / nullif(max(c.around) OVER (), 0), 0) * :words_window
            + CASE WHEN string_to_array(lower(c.speaker), ' ') && :words THEN :speaker_boost ELSE 0 END
            + CASE c.source WHEN 'turn' THEN 0 WHEN 'remembered' THEN :remembered_boost ELSE :fact_boost END)
           * CASE WHEN c.is_from_bot THEN :bot_factor ELSE 1 END AS score
    FROM scored AS c
    UNION ALL
    -- A question without words asks for the newest: facts first.
    SELECT n.id, n.said_at, n.score FROM scopes AS s CROSS JOIN LATERAL (
        SELECT m.id, m.said_at, CASE m.source WHEN 'turn' THEN 0 ELSE 0.5 END::float8 AS score FROM memories AS m
        WHERE m.scope_id = s.id AND {IS_WANTED} ORDER BY m.said_at DESC, m.id DESC LIMIT :k
    ) AS n
    WHERE cardinality(:words) = 0
), best AS (
    SELECT r.*, row_number() OVER (ORDER BY r.score DESC, r.said_at DESC, r.id DESC) AS place FROM ranked AS r
), answering AS (
    -- While a new model's vectors are made, those of the model before answer; two models' vectors are never compared.
    SELECT max(vector_model) AS model FROM (
        SELECT vector_model FROM scopes WHERE vector_model IS NOT NULL
        GROUP BY vector_model ORDER BY sum(memories) DESC, vector_model LIMIT 1
    ) AS most
)
SELECT v.model, ARRAY(SELECT id FROM scopes WHERE memories > {LARGE}) AS large, r.id, r.score, {SHOWN}
FROM answering AS v
LEFT JOIN best AS r ON true
LEFT JOIN memories AS m ON m.id = r.id AND r.place <= :k
{WITH_NEIGHBOURS}
ORDER BY r.place
"""

# The nearest of each scope and the best by words are scored together; one without vectors gets the average of the
# others.
BY_VECTORS = f"""
WITH words AS MATERIALIZED (
    SELECT * FROM unnest(:ids, :scores) AS word (id, score)
), near AS MATERIALIZED (
    SELECT n.memory_id
    FROM memory_scopes AS s CROSS JOIN (VALUES ('turn'), ('window')) AS kinds (kind) CROSS JOIN LATERAL (
        SELECT v.memory_id FROM memory_vectors AS v
        WHERE v.scope_id = s.id AND v.model = :model AND v.kind = kinds.kind
              AND vector_dims(v.embedding) = :dimensions
              AND (:since IS NULL AND :until IS NULL
                   OR EXISTS (SELECT FROM memories AS m WHERE m.id = v.memory_id AND {IS_WANTED}))
        ORDER BY v.embedding <=> CAST(:vector AS halfvec) LIMIT {MAX_CANDIDATES}
    ) AS n
    WHERE s.memories > 0 AND s.id <> ALL (:indexed)
), pool AS MATERIALIZED (
    SELECT m.id, m.said_at, m.window_length IS NULL AS is_alone, w.score,
           CASE WHEN m.is_from_bot THEN :bot_factor ELSE 1 END AS factor
    FROM (SELECT id FROM words UNION SELECT memory_id FROM near) AS found
    JOIN memories AS m ON m.id = found.id AND {IS_WANTED}
    LEFT JOIN words AS w ON w.id = m.id
), similar_ones AS (
    SELECT p.id, p.is_alone,
           max(nullif(1 - (e.embedding <=> CAST(:vector AS halfvec)), 'NaN')) FILTER (WHERE e.kind = 'turn') AS turn,
           max(nullif(1 - (e.embedding <=> CAST(:vector AS halfvec)), 'NaN')) FILTER (WHERE e.kind = 'window') AS around
    FROM pool AS p JOIN memory_vectors AS e ON e.memory_id = p.id AND e.model = :model
    WHERE vector_dims(e.embedding) = :dimensions
    GROUP BY p.id, p.is_alone
), scaled AS (
    SELECT id, is_alone,
           coalesce((turn - min(turn) OVER ()) / nullif(max(turn) OVER () - min(turn) OVER (), 0), 0.5) AS turn,
           coalesce((around - min(around) OVER ())
                    / nullif(max(around) OVER () - min(around) OVER (), 0), 0.5) AS around
    FROM similar_ones
), summed AS (
    SELECT id, CASE WHEN is_alone THEN turn * (:vector_turn + :vector_window)
                    ELSE turn * :vector_turn + around * :vector_window END AS score
    FROM scaled
), ranked AS (
    SELECT p.id, p.said_at,
           coalesce(p.score, 0) + p.factor * coalesce(s.score, avg(s.score) OVER (), 0) AS score
    FROM pool AS p LEFT JOIN summed AS s ON s.id = p.id
    ORDER BY score DESC, p.said_at DESC, p.id DESC LIMIT :k
)
SELECT r.id, r.score, {SHOWN}
FROM ranked AS r JOIN memories AS m ON m.id = r.id
{WITH_NEIGHBOURS}
ORDER BY r.score DESC, r.said_at DESC, r.id DESC
"""

SELECT_BY_WORDS = prepare(BY_WORDS)
SELECT_BY_VECTORS = prepare(BY_VECTORS)


async def find_by_words(session: AsyncSession, search: Search) -> WordMatches:
    """Search by words in one statement; without any word, the newest memories are the best."""
    rows = (await session.execute(SELECT_BY_WORDS, search.parameters)).all()
    best = _to_recalled([row for row in rows if row.content is not None])
    scores = {row.id: float(row.score) for row in rows if row.id is not None}
    return WordMatches(search, rows[0].model, tuple(best), scores=scores, large=tuple(rows[0].large))


async def find_by_vectors(session: AsyncSession, found: WordMatches, query: Embedded) -> list[RecalledMemory]:
    """Return the best of them by words and vectors together, in one statement unless a scope is very large."""
    search, vector, dimensions = found.search, to_halfvec(query.vectors[0]), len(query.vectors[0])
    near: dict[int, list[int]] = {}
    # An index knows no dates, so that a range of dates is searched exactly.
    if found.large and found.model is not None and search.since is None and search.until is None:
        near = await find_nearest(session, found.large, model=found.model, vector=vector, dimensions=dimensions)
    scores: dict[int, float | None] = dict.fromkeys(each for ids in near.values() for each in ids)
    scores |= found.scores
    parameters = search.parameters | {
        "model": found.model,
        "ids": list(scores),
        "scores": list(scores.values()),
        "indexed": list(near),
        "vector": vector,
        "dimensions": dimensions,
    }
    return _to_recalled((await session.execute(SELECT_BY_VECTORS, parameters)).all())


def _to_recalled(rows: Sequence[Any]) -> list[RecalledMemory]:
    """Convert the rows; neighbours are kept while the word budget has room, and not twice."""
    shown = {row.id for row in rows}
    left = WORD_BUDGET - sum(_size(row.content) for row in rows)
    recalled = []
    for row in rows:
        around: dict[str, Neighbour] = {}
        for side in ("before", "after"):
            neighbour_id, content = getattr(row, f"{side}_id"), getattr(row, side)
            if neighbour_id is None or neighbour_id in shown or _size(content) > left:
                continue
            shown.add(neighbour_id)
            left -= _size(content)
            speaker, is_from_bot = getattr(row, f"{side}_speaker"), getattr(row, f"{side}_is_from_bot")
            around[side] = Neighbour(neighbour_id, content, speaker, is_from_bot=is_from_bot)
        recalled.append(
            RecalledMemory(
                row.id,
                row.content,
                row.scope,
                said_at=row.said_at,
                score=float(row.score),
                source=row.source,
                speaker=row.speaker,
                is_from_bot=row.is_from_bot,
                **around,
            )
        )
    return recalled


def _size(content: str) -> int:
    # Texts of scripts without spaces count by their characters.
    return max(len(content.split()), len(content) // 8)
