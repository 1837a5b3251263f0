"""The index of memories: how often each word occurs in each text."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from sqlalchemy.ext.asyncio import AsyncSession

from shared.db.statements import load_statements
from shared.memory.tokenizer import count_words, dated
from shared.memory.visibility import TYPES

statements = load_statements(__file__, TYPES)

Kind = Literal["turn", "window"]
# The `source` of memories that are messages of a conversation; only these have neighbours.
TURN = "turn"


async def index_missing(session: AsyncSession, limit: int) -> int:
    """Index up to `limit` memories that an admin has inserted or changed; returns how many."""
    memories = (await session.execute(statements.list_unindexed, {"limit": limit})).all()
    if not memories:
        return 0
    rows = [{"id": row.memory_id, **count(row.content, row.said_at)} for row in memories]
    return int((await session.execute(statements.index_memories, {"rows": rows})).scalar_one())


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
