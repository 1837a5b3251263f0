"""The index of memories: how often each word occurs in each text, and the texts with their neighbours for embedding."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy.ext.asyncio import AsyncSession

from shared.memory.tokenizer import count_words, dated
from shared.memory.visibility import prepare

Kind = Literal["turn", "window"]
# The `source` of memories that are messages of a conversation; only these have neighbours.
TURN = "turn"

LIST_TEXTS = prepare("SELECT * FROM parley_texts_of_memories_v1(:ids) ORDER BY memory_id")
LIST_UNINDEXED = prepare("SELECT memory_id, said_at, content FROM parley_unindexed_memories_v1(:limit)")
INDEX = prepare("SELECT parley_index_memories_v1(:rows)")


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
        """Return the texts to embed by kind, each preceded by the memory's date."""
        texts: dict[Kind, str] = {"turn": dated(self.content, self.said_at)}
        if self.window is not None:
            texts["window"] = dated(self.window, self.said_at)
        return texts


async def list_texts(session: AsyncSession, memory_ids: Sequence[int]) -> list[IndexedText]:
    """Return the texts and windows of these memories of any persons; those that are not indexed yet are left out."""
    rows = await session.execute(LIST_TEXTS, {"ids": list(memory_ids)})
    return [_to_indexed_text(row) for row in rows]


async def index_missing(session: AsyncSession, limit: int) -> int:
    """Index up to `limit` memories that an admin or the release before has inserted or changed; returns how many."""
    found = (await session.execute(LIST_UNINDEXED, {"limit": limit})).all()
    if not found:
        return 0
    rows = [{"id": row.memory_id, **count(row.content, row.said_at)} for row in found]
    return int((await session.execute(INDEX, {"rows": rows})).scalar_one())


def count(content: str, said_at: datetime) -> dict[str, Any]:
    """Return what the index needs to know of a text: its words by frequency, and their number."""
    words = count_words(dated(content, said_at))
    return {"words": words, "length": words.total()}


def split_text(content: str, limit: int) -> Iterable[str]:
    """Yield the text in parts of at most `limit` characters, broken at white space where there is any."""
    while len(content) > limit:
        end = max(content.rfind(space, limit // 2, limit) for space in " \n") + 1 or limit
        if content[:end].strip():
            yield content[:end].strip()
        content = content[end:]
    if content.strip():
        yield content.strip()


def _to_indexed_text(row: Any) -> IndexedText:
    texts = [text for text in (row.before, row.content, row.after) if text is not None]
    window = "\n".join(texts) if len(texts) > 1 else None
    return IndexedText(row.memory_id, row.said_at, row.window_length, content=row.content, window=window)
