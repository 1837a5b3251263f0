"""Search in memories: by words (BM25) and, with an embedder, by vectors.

Both score the text alone and the text with its two neighbours (its window). The four scores are scaled to their best
and added; in our measurements, reciprocal rank fusion was worse than BM25 alone. Which memories a search may find is
decided by row-level security: the statements have no condition of their own. Both searches are database functions, each
of which is planned once for a connection.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.memory.embeddings import Embedded
from shared.memory.parameters import TYPES
from shared.memory.tokenizer import split_words
from shared.memory.vector_indexes import LARGE, find_nearest
from shared.memory.vectors import to_halfvec
from shared.memory.visibility import Visibility
from shared.messages import Author, Place, Usage

statements = load_statements(__file__, TYPES)

# The weight of the similarity of the text and of its window; those of the words are in their function. Measured for
# each model that is named here, with the dialogues of the benchmark.
VECTOR_WEIGHTS = (1.0, 1.0)
WEIGHTS_OF_MODELS = {"local/use-multilingual-3": (1.0, 2.0)}
# What has less than this share of the best score is left out.
GAP = 0.25
STANDS_FOR = ("remembered", "fact", "turn")
# The words of what is recalled together: first the memories themselves, then their neighbours.
WORD_BUDGET = 200


class Neighbour(Struct, frozen=True):
    """The message before or after a recalled one."""

    id: int
    content: str
    author: Author
    speaker: str | None
    is_from_bot: bool


class RecalledMemory(Struct, frozen=True):
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

    @property
    def shows_stranger(self) -> bool:
        """Return whether a stranger may have written it, or what is shown beside it."""
        return any(text.author == "stranger" for text in (self, self.before, self.after) if text is not None)


class Search(Struct, frozen=True):
    """What to search for: `words` of the query, `k` results, said `since` and `until`.

    Messages of the conversation from the turn `shown_from` on are left out, because the prompt shows them anyway.
    With `vectors_follow` the search by words reads no texts where there are vectors to search.
    """

    words: Sequence[str]
    k: int
    since: datetime | None = None
    until: datetime | None = None
    conversation_id: int | None = None
    shown_from: int | None = None
    vectors_follow: bool = False


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
        words = frozenset(split_words(row.content)).difference(split_words(row.speaker) if row.speaker else ())
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


class WordMatches(Struct, frozen=True):
    """The result of the search by words: the rows of the best, and the scores of all candidates by memory id.

    `model` is the embedding model whose vectors most of the visible memories have, None if they have none. `large` are
    the scopes with so many memories that their vectors have indexes of their own.
    """

    search: Search
    model: str | None
    rows: Sequence[Any]
    scores: dict[int, float]
    large: tuple[int, ...] = ()

    @property
    def has_indexes(self) -> bool:
        """Return whether vector indexes are to be asked. They know no dates: a range of dates is searched exactly."""
        return bool(self.large) and self.model is not None and self.search.since is None and self.search.until is None

    def choose_best(self) -> list[RecalledMemory]:
        """Return the first `k`."""
        return _to_recalled(choose(self.rows, self.search), self.search)


async def find_by_words(session: Session, visibility: Visibility, search: Search) -> WordMatches:
    """Search what is visible by words, in one statement; without any word, the newest memories are the best."""
    parameters = asdict(search) | {
        "visibility": json.dumps(visibility.settings),
        "large": LARGE,
        "k": to_wide(search.k),
    }
    rows = (await session.execute(statements.recall_by_words, parameters)).all()
    first, best = rows[0], [row for row in rows if row.id is not None]
    scores = dict(zip(first.candidate_ids, first.candidate_scores, strict=True))
    return WordMatches(search, first.model, best, scores=scores, large=tuple(first.large))


async def plan_search(session: Session, *, has_vectors: bool) -> None:
    """Let a connection plan the searches, which takes it ten times as long as to search: for nobody, here."""
    nobody = Visibility(0, Place("", None, ""))
    matches = await find_by_words(session, nobody, Search((), 1))
    if has_vectors:
        await find_by_vectors(session, nobody, matches, query=Embedded(((0.0,),), Usage()))


async def find_in_indexes(session: Session, matches: WordMatches, query: Embedded) -> dict[int, list[int]]:
    """Return what the indexes of very large scopes find, by scope; in a transaction in which the person acts."""
    vector = query.vectors[0]
    return await find_nearest(
        session, matches.large, model=matches.model or "", vector=to_halfvec(vector), dimensions=len(vector)
    )


async def find_by_vectors(
    session: Session,
    visibility: Visibility,
    matches: WordMatches,
    *,
    query: Embedded,
    near: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> list[RecalledMemory]:
    """Return the best by words and vectors together, in one statement; `near` is what `find_in_indexes` found."""
    search, vector = matches.search, query.vectors[0]
    scores: dict[int, float | None] = dict.fromkeys(memory_id for ids in near.values() for memory_id in ids)
    scores |= matches.scores
    turn_weight, window_weight = WEIGHTS_OF_MODELS.get(matches.model or "", VECTOR_WEIGHTS)
    parameters = asdict(search) | {
        "visibility": json.dumps(visibility.settings),
        "vector_turn": turn_weight,
        "vector_window": window_weight,
        "k": to_wide(search.k),
        "model": matches.model,
        "ids": list(scores),
        "scores": list(scores.values()),
        "indexed": list(near),
        "vector": to_halfvec(vector),
        "dimensions": len(vector),
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
            around[side] = Neighbour(
                neighbour_id,
                content,
                author=getattr(row, f"{side}_author"),
                speaker=getattr(row, f"{side}_speaker"),
                is_from_bot=getattr(row, f"{side}_is_from_bot"),
            )
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
