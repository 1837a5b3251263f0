"""Search in memories: by words (BM25) and, with an embedder, by vectors.

Both score the text alone and the text with its two neighbours (its window). The four scores are scaled to their best
and added; in our measurements, reciprocal rank fusion was worse than BM25 alone. Which memories a search may find is
decided by row-level security: the statements have no condition of their own. The search by words is a database function
(`migrations/sql`).
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.db.driver import Session
from shared.memory.embeddings import Embedded
from shared.memory.tokenizer import split_words
from shared.memory.vector_indexes import LARGE, find_nearest
from shared.memory.vectors import to_halfvec
from shared.memory.visibility import Visibility, prepare
from shared.messages import Author, Place

# The weight of the similarity of the text and of its window; those of the words are in the SQL function. Measured for
# each model that is named here, with the dialogues of the benchmark.
VECTOR_WEIGHTS = (1.0, 1.0)
WEIGHTS_OF_MODELS = {"local/use-multilingual-3": (1.0, 2.0)}
# Scores of Parley's own answers are multiplied by this.
BOT_FACTOR = 0.8
# Scores of greetings and thanks are multiplied by this, as in the SQL function.
TALK_FACTOR = 0.2
# How many memories of each scope are taken by their vectors, to be scored together with the best by words.
MAX_CANDIDATES = 60
# What has less than this share of the best score is left out.
GAP = 0.25
STANDS_FOR = ("remembered", "fact", "turn")
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
    author: Author = "person"
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


# Of the rows of a search, chosen are as many as wanted: those that say the same are one line.
def to_wide(k: int) -> int:
    """Return how many of the best are read to choose `k` different ones."""
    return 4 * k + 10


def choose(rows: Sequence[Any], search: Search) -> list[Any]:
    """Return the best `k` of the rows of a search, one for each content, without those after a gap in the scores.

    Messages of no other words than the question, mostly the same question at an earlier time, come last.
    Of several that say the same, what the person asked to remember or a fact stands for all, then what somebody said,
    then Parley's own answer; it has the place of the best of them.
    """
    groups: list[list[tuple[Any, frozenset[str]]]] = []
    echoes: list[Any] = []
    for row in rows:
        # A fact names the person who said "I" and "my".
        words = frozenset(split_words(row.content)).difference(split_words(row.speaker or ""))
        if row.source == "turn" and words <= set(search.words):
            echoes.append(row)
            continue
        group = next((group for group in groups if any(says_the_same(words, other) for _, other in group)), None)
        if group is not None:
            group.append((row, words))
        elif search.words and groups and row.score < GAP * groups[0][0][0].score:
            break
        else:
            groups.append([(row, words)])
    best = [min(group, key=lambda pair: _rank(pair[0]))[0] for group in groups]
    return (best or echoes)[: search.k]


def _rank(row: Any) -> int:
    # Parley's own answers are turns, too.
    return STANDS_FOR.index(row.source) + int(row.is_from_bot)


def says_the_same(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether two texts with these words say the same: one has all words of the other, and no other numbers."""
    shorter, longer = sorted((one, other), key=len)
    if not shorter or len(longer) > 2 * len(shorter) + 2:
        return False
    return shorter <= longer and not any(word.isdigit() for word in longer - shorter)


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

BY_WORDS = text("""
SELECT * FROM parley_recall_by_words(
    p_visibility => CAST(:visibility AS jsonb), p_words => CAST(:words AS text[]), p_k => :k, p_since => :since,
    p_until => :until, p_conversation_id => :conversation_id, p_shown_from => :shown_from, p_large => :large
)
""")

# The nearest of each scope and the best by words are scored together; one without vectors gets the average of the
# others. Each is looked up by its id (LATERAL): a plan made while there were few memories stays fast with many; and the
# vector of the question is read from its text once, not for each row.
BY_VECTORS = f"""
WITH question AS MATERIALIZED (
    SELECT CAST(:vector AS halfvec) AS vector
), words AS MATERIALIZED (
    SELECT * FROM unnest(:ids, :scores) AS word (id, score)
), near AS MATERIALIZED (
    SELECT n.memory_id
    FROM memory_scopes AS s CROSS JOIN (VALUES ('turn'), ('window')) AS kinds (kind) CROSS JOIN LATERAL (
        SELECT v.memory_id FROM memory_vectors AS v
        WHERE v.scope_id = s.id AND v.model = :model AND v.kind = kinds.kind
              AND vector_dims(v.embedding) = :dimensions
              AND (:since IS NULL AND :until IS NULL
                   OR EXISTS (SELECT FROM memories AS m WHERE m.id = v.memory_id AND {IS_WANTED}))
        ORDER BY v.embedding <=> (SELECT vector FROM question) LIMIT {MAX_CANDIDATES}
    ) AS n
    WHERE s.memories > 0 AND s.id <> ALL (:indexed)
), pool AS MATERIALIZED (
    SELECT m.id, m.said_at, m.window_length IS NULL AS is_alone, w.score, e.vectors, e.turn, e.around,
           CASE WHEN m.is_from_bot THEN :bot_factor ELSE 1 END
           * CASE WHEN m.source = 'turn' AND parley_is_talk(m.content) THEN :talk_factor ELSE 1 END AS factor
    FROM (
        SELECT id, max(score) AS score
        FROM (SELECT id, score FROM words UNION ALL SELECT memory_id, NULL FROM near) AS each_one GROUP BY id
    ) AS w
    CROSS JOIN LATERAL (SELECT m.* FROM memories AS m WHERE m.id = w.id AND {IS_WANTED} LIMIT 1) AS m
    CROSS JOIN LATERAL (
        SELECT count(*) AS vectors, max(s.similarity) FILTER (WHERE s.kind = 'turn') AS turn,
               max(s.similarity) FILTER (WHERE s.kind = 'window') AS around
        FROM (
            SELECT v.kind, nullif(1 - (v.embedding <=> (SELECT vector FROM question)), 'NaN') AS similarity
            FROM memory_vectors AS v
            WHERE v.memory_id = w.id AND v.model = :model AND vector_dims(v.embedding) = :dimensions
            OFFSET 0
        ) AS s
    ) AS e
), scaled AS (
    SELECT id, said_at, is_alone, score, vectors, factor,
           coalesce((turn - min(turn) OVER ()) / nullif(max(turn) OVER () - min(turn) OVER (), 0), 0.5) AS turn,
           coalesce((around - min(around) OVER ())
                    / nullif(max(around) OVER () - min(around) OVER (), 0), 0.5) AS around
    FROM pool
), summed AS (
    SELECT id, said_at, score, factor,
           CASE WHEN vectors = 0 THEN NULL WHEN is_alone THEN turn * (:vector_turn + :vector_window)
                ELSE turn * :vector_turn + around * :vector_window END AS similarity
    FROM scaled
), ranked AS (
    SELECT id, said_at, coalesce(score, 0) + factor * coalesce(similarity, avg(similarity) OVER (), 0) AS score
    FROM summed
    ORDER BY score DESC, said_at DESC, id DESC LIMIT :k
)
SELECT r.id, r.score,
       m.content, m.scope, m.said_at, m.source, m.author, m.speaker, m.is_from_bot,
       b.id AS before_id, b.content AS before, b.speaker AS before_speaker, b.is_from_bot AS before_is_from_bot,
       a.id AS after_id, a.content AS after, a.speaker AS after_speaker, a.is_from_bot AS after_is_from_bot
FROM ranked AS r CROSS JOIN LATERAL (SELECT n.* FROM memories AS n WHERE n.id = r.id LIMIT 1) AS m
LEFT JOIN LATERAL (
    SELECT n.* FROM memories AS n WHERE n.scope_id = m.scope_id AND n.ordinal = m.ordinal - 1 LIMIT 1
) AS b ON true
LEFT JOIN LATERAL (
    SELECT n.* FROM memories AS n WHERE n.scope_id = m.scope_id AND n.ordinal = m.ordinal + 1 LIMIT 1
) AS a ON true
ORDER BY r.score DESC, r.said_at DESC, r.id DESC
"""

SELECT_BY_VECTORS = prepare(BY_VECTORS)


async def find_by_words(session: Session, visibility: Visibility, search: Search) -> WordMatches:
    """Search what is visible by words, in one statement; without any word, the newest memories are the best."""
    parameters = asdict(search) | {
        "visibility": json.dumps(visibility.settings),
        "large": LARGE,
        "k": to_wide(search.k),
    }
    rows = (await session.execute(BY_WORDS, parameters)).all()
    best = _to_recalled(choose([row for row in rows if row.id is not None], search), search)
    scores = dict(zip(rows[0].candidate_ids, rows[0].candidate_scores, strict=True))
    return WordMatches(search, rows[0].model, tuple(best), scores=scores, large=tuple(rows[0].large))


async def plan_search(session: Session) -> None:
    """Let a connection plan the search by words, which takes it ten times as long as a search: for nobody, here."""
    await find_by_words(session, Visibility(0, Place("", None, "")), Search((), 1))


async def find_by_vectors(session: AsyncSession, matches: WordMatches, query: Embedded) -> list[RecalledMemory]:
    """Return the best of them by words and vectors together, in one statement unless a scope is very large."""
    search, vector, dimensions = matches.search, to_halfvec(query.vectors[0]), len(query.vectors[0])
    near: dict[int, list[int]] = {}
    # An index knows no dates, so that a range of dates is searched exactly.
    if matches.large and matches.model is not None and search.since is None and search.until is None:
        near = await find_nearest(session, matches.large, model=matches.model, vector=vector, dimensions=dimensions)
    scores: dict[int, float | None] = dict.fromkeys(memory_id for ids in near.values() for memory_id in ids)
    scores |= matches.scores
    turn_weight, window_weight = WEIGHTS_OF_MODELS.get(matches.model or "", VECTOR_WEIGHTS)
    parameters = asdict(search) | {
        "vector_turn": turn_weight,
        "vector_window": window_weight,
        "bot_factor": BOT_FACTOR,
        "talk_factor": TALK_FACTOR,
        "k": to_wide(search.k),
        "model": matches.model,
        "ids": list(scores),
        "scores": list(scores.values()),
        "indexed": list(near),
        "vector": vector,
        "dimensions": dimensions,
    }
    return _to_recalled(choose((await session.execute(SELECT_BY_VECTORS, parameters)).all(), search), search)


def _to_recalled(rows: Sequence[Any], search: Search) -> list[RecalledMemory]:
    """Convert the rows; neighbours are kept while the word budget has room, not twice, and not the same question."""
    ids = {row.id for row in rows}
    room = WORD_BUDGET - sum(_size(row.content) for row in rows)
    recalled = []
    for row in rows:
        around: dict[str, Neighbour] = {}
        for side in ("before", "after"):
            neighbour_id, content = getattr(row, f"{side}_id"), getattr(row, side)
            if (
                neighbour_id is None
                or neighbour_id in ids
                or _size(content) > room
                or set(split_words(content)) <= set(search.words)
            ):
                continue
            ids.add(neighbour_id)
            room -= _size(content)
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
                author=row.author,
                speaker=row.speaker,
                is_from_bot=row.is_from_bot,
                **around,
            )
        )
    return recalled


def _size(content: str) -> int:
    # Texts of scripts without spaces count by their characters.
    return max(len(content.split()), len(content) // 8)
