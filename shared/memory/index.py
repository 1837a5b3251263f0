"""The full-text index of memories: postings of each text, and of its window (the text with its neighbours)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy.ext.asyncio import AsyncSession

from shared.memory.tokenizer import count_words, dated
from shared.memory.visibility import prepare

Kind = Literal["turn", "window"]
# The `source` of memories that are messages of a conversation; only these have neighbours.
TURN = "turn"

ADD_POSTINGS = prepare("""
INSERT INTO memory_postings (user_id, term, kind, memory_id, tf)
SELECT :user_id, coalesce((ts_lexize('english_stem', word))[1], word) AS term, kind, memory_id, sum(tf)
FROM unnest(:ids, :kinds, :words, :counts) AS given (memory_id, kind, word, tf)
GROUP BY memory_id, kind, term
""")

NEIGHBOURS = """
SELECT m.id, m.said_at, m.window_length, m.content, before.content AS before, after.content AS after
FROM memories AS m
LEFT JOIN LATERAL (
    SELECT b.content FROM memories AS b
    WHERE b.conversation_id = m.conversation_id AND b.user_id = :user_id AND b.source = 'turn' AND b.scope = m.scope
          AND b.id < m.id ORDER BY b.id DESC LIMIT 1
) AS before ON m.source = 'turn'
LEFT JOIN LATERAL (
    SELECT a.content FROM memories AS a
    WHERE a.conversation_id = m.conversation_id AND a.user_id = :user_id AND a.source = 'turn' AND a.scope = m.scope
          AND a.id > m.id ORDER BY a.id LIMIT 1
) AS after ON m.source = 'turn'
WHERE m.user_id = :user_id AND m.id IN ({which})
"""

SELECT_BY_ID = prepare(NEIGHBOURS.format(which="SELECT unnest(:ids)"))

# The memory and its neighbour on each side: all whose windows contain the memory.
SELECT_WITH_NEIGHBOURS = prepare(
    NEIGHBOURS.format(
        which="""
    (SELECT id FROM memories WHERE conversation_id = :conversation_id AND user_id = :user_id AND source = 'turn'
     AND scope = :scope AND id < :memory_id ORDER BY id DESC LIMIT 1)
    UNION ALL
    (SELECT id FROM memories WHERE conversation_id = :conversation_id AND user_id = :user_id AND source = 'turn'
     AND scope = :scope AND id = :memory_id)
    UNION ALL
    (SELECT id FROM memories WHERE conversation_id = :conversation_id AND user_id = :user_id AND source = 'turn'
     AND scope = :scope AND id > :memory_id ORDER BY id LIMIT 1)"""
    )
)

DROP_WINDOWS = prepare("""
WITH postings AS (
    DELETE FROM memory_postings WHERE memory_id = ANY (:ids) AND user_id = :user_id AND kind = 'window'
)
DELETE FROM memory_vectors WHERE memory_id = ANY (:ids) AND user_id = :user_id AND kind = 'window'
""")

SET_WINDOWS = prepare("""
UPDATE memories AS m SET window_length = nullif(given.length, 0), vector_model = NULL
FROM unnest(:ids, :lengths) AS given (id, length) WHERE m.id = given.id AND m.user_id = :user_id
""")


@dataclass(frozen=True, slots=True)
class IndexedText:
    """A memory and the text of its window; `window` is None when it has no neighbours."""

    memory_id: int
    said_at: datetime
    window_length: int | None
    content: str
    window: str | None

    @property
    def texts(self) -> dict[Kind, str]:
        """Return the texts to index by kind, each preceded by the memory's date."""
        texts: dict[Kind, str] = {"turn": dated(self.content, self.said_at)}
        if self.window is not None:
            texts["window"] = dated(self.window, self.said_at)
        return texts


async def list_texts(session: AsyncSession, user_id: int, memory_ids: Sequence[int]) -> list[IndexedText]:
    """Return the texts and windows of these memories of a user."""
    rows = await session.execute(SELECT_BY_ID, {"user_id": user_id, "ids": list(memory_ids)})
    return [_to_indexed_text(row) for row in rows]


async def add_postings(session: AsyncSession, user_id: int, counted: Mapping[tuple[int, Kind], Counter[str]]) -> None:
    """Store the word counts of each (memory id, kind)."""
    rows = [(*key, word, count) for key, words in counted.items() for word, count in words.items()]
    if not rows:
        return
    ids, kinds, words, counts = (list(column) for column in zip(*rows, strict=True))
    await session.execute(
        ADD_POSTINGS, {"user_id": user_id, "ids": ids, "kinds": kinds, "words": words, "counts": counts}
    )


async def rebuild_windows(
    session: AsyncSession, user_id: int, *, conversation_id: int, scope: str, memory_id: int
) -> None:
    """Index the windows around a memory again, after it was added to its conversation or deleted."""
    place = {"user_id": user_id, "conversation_id": conversation_id, "scope": scope, "memory_id": memory_id}
    texts = [_to_indexed_text(row) for row in await session.execute(SELECT_WITH_NEIGHBOURS, place)]
    if not texts:
        return
    ids = [each.memory_id for each in texts]
    windows = {each.memory_id: count_words(each.texts.get("window", "")) for each in texts}
    await session.execute(DROP_WINDOWS, {"user_id": user_id, "ids": ids})
    lengths = [windows[each].total() for each in ids]
    await session.execute(SET_WINDOWS, {"user_id": user_id, "ids": ids, "lengths": lengths})
    await add_postings(session, user_id, {(each, "window"): words for each, words in windows.items()})


def _to_indexed_text(row: Any) -> IndexedText:
    texts = [text for text in (row.before, row.content, row.after) if text is not None]
    window = "\n".join(texts) if len(texts) > 1 else None
    return IndexedText(row.id, row.said_at, row.window_length, content=row.content, window=window)
