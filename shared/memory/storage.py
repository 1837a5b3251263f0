"""Stores memories with their index, how often each word occurs in each text, in batches."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.memory.parameters import TYPES
from shared.memory.tokenizer import MAX_CONTENT_CHARS, content_key, count_words, dated, split_text
from shared.messages import Author, Place
from shared.text import clean

statements = load_statements(__file__, TYPES)

Kind = Literal["turn", "window"]
# The `source` of memories that are messages of a conversation; only these have neighbours.
TURN = "turn"
Scope = Literal["private", "conversation", "server", "everywhere"]
Source = Literal["fact", "remembered", "turn"]
MAX_SPEAKER_CHARS = 100
# Facts of one person; messages are not counted.
CAPACITY = 10_000


class Origin(Struct, frozen=True):
    """Where a memory comes from: the place, and what is known of conversation, turn and the platform's message."""

    place: Place
    conversation_id: int | None = None
    turn_id: int | None = None
    message_id: str | None = None


class NewMemory(Struct, frozen=True):
    """A memory to be stored; see the columns of `memories`.

    Without a `scope`, what is said in a direct message is private; elsewhere a message belongs to its channel, and a
    fact to its person on that server.
    """

    user_id: int
    origin: Origin
    content: str
    said_at: datetime
    source: Source = "turn"
    speaker: str | None = None
    is_from_bot: bool = False
    confidence: float | None = None
    scope: Scope | None = None
    author: Author = "person"

    @property
    def effective_scope(self) -> Scope:
        """Return the scope, or the one that its place gives it."""
        if self.scope is not None:
            return self.scope
        if self.origin.place.is_direct:
            return "private"
        return "conversation" if self.source == TURN else "server"


class Added(Struct, frozen=True):
    """The id of a stored memory, and whether it is new; `None`: its person has as many facts as are kept."""

    memory_id: int | None
    is_new: bool


async def add_memories(
    session: Session, memories: Sequence[NewMemory], *, capacity: int = CAPACITY
) -> list[Added | None]:
    """Store these memories of any persons in one statement; a text that is too long is stored in parts.

    Returns for each what was stored (of several parts, the first), None for one without text. A fact that is stored
    already is not stored again.
    """
    rows: list[dict[str, Any]] = []
    first: list[int | None] = []
    for memory in memories:
        parts = list(split_text(clean(memory.content), MAX_CONTENT_CHARS))
        first.append(len(rows) if parts else None)
        rows += [_to_row(memory, part, n=len(rows) + n) for n, part in enumerate(parts, start=1)]
    if not rows:
        return [None] * len(memories)
    entries = (await session.execute(statements.add_memories, {"rows": rows, "capacity": capacity})).all()
    return [None if n is None else Added(entries[n].memory_id, entries[n].is_new) for n in first]


def _to_row(memory: NewMemory, content: str, n: int) -> dict[str, Any]:
    origin, place = memory.origin, memory.origin.place
    return {
        "n": n,
        "user_id": memory.user_id,
        "scope": memory.effective_scope,
        "platform": place.platform,
        "server": place.server,
        "channel": place.channel,
        "thread": place.thread,
        "conversation_id": origin.conversation_id,
        "turn_id": origin.turn_id,
        "message_id": origin.message_id,
        "said_at": memory.said_at.isoformat(),
        "speaker": memory.speaker and clean(memory.speaker)[:MAX_SPEAKER_CHARS],
        "content": content,
        # A message that was said twice was said twice.
        "content_key": None if memory.source == TURN else content_key(content),
        "source": memory.source,
        "author": memory.author,
        "is_from_bot": memory.is_from_bot,
        "confidence": memory.confidence,
        **count(content, memory.said_at),
    }


async def index_missing(session: Session, limit: int) -> int:
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
