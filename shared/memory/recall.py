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

from sqlalchemy.ext.asyncio import AsyncSession

from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.memory.embeddings import Embedded
from shared.memory.tokenizer import split_words
from shared.memory.vector_indexes import LARGE, find_nearest
from shared.memory.vectors import to_halfvec
from shared.memory.visibility import TYPES, Visibility
from shared.messages import Author, Place

statements = load_statements(__file__, TYPES)

# The weight of the similarity of the text and of its window; those of the words are in the SQL function. Measured for
# each model that is named here, with the dialogues of the benchmark.
VECTOR_WEIGHTS = (1.0, 1.0)
WEIGHTS_OF_MODELS = {"local/use-multilingual-3": (1.0, 2.0)}
# Scores of Parley's own answers are multiplied by this.
BOT_FACTOR = 0.8
# Scores of greetings and thanks are multiplied by this, as in the SQL function.
TALK_FACTOR = 0.2
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
    # Parley's own answers are turns, too.
    best = [
        min((row for row, _ in group), key=lambda row: STANDS_FOR.index(row.source) + int(row.is_from_bot))
        for group in groups
    ]
    return (best or echoes)[: search.k]


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


async def find_by_words(session: Session, visibility: Visibility, search: Search) -> WordMatches:
    """Search what is visible by words, in one statement; without any word, the newest memories are the best."""
    parameters = asdict(search) | {
        "visibility": json.dumps(visibility.settings),
        "large": LARGE,
        "k": to_wide(search.k),
    }
    rows = (await session.execute(statements.recall_by_words, parameters)).all()
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
    return _to_recalled(choose((await session.execute(statements.recall_by_vectors, parameters)).all(), search), search)


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
