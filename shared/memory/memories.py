"""Memories of users: remember, recall, list and forget."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from shared.clock import Clock
from shared.db.database import Database
from shared.errors import ToolError
from shared.memory.embeddings import Embedder, EmbeddingUnavailable, open_embedder
from shared.memory.index import TURN, add_postings, rebuild_windows
from shared.memory.recall import RecalledMemory, find_by_vectors, find_by_words
from shared.memory.tokenizer import content_key, count_words, dated, question_words
from shared.memory.vectors import MAX_CHARS, Vectors
from shared.memory.visibility import Visibility, act_for, prepare
from shared.messages import Place
from shared.settings import Settings
from shared.text import clean

__all__ = ["Memories", "MemoryFull", "MemoryOfUser", "RecalledMemory", "StoredMemory"]

MAX_CONTENT_CHARS = 2000
CAPACITY = 10_000
MAX_SPEAKER_CHARS = 100
# The largest bigint; Postgres rejects a larger parameter.
MAX_ID = 2**63 - 1

ADD = prepare("""
INSERT INTO memories (user_id, scope, platform, platform_server_id, conversation_id, said_at, speaker, content,
                      content_key, source, turn_length)
SELECT :user_id, :scope, :platform, :server, :conversation_id, :said_at, :speaker, :content,
       :content_key, :source, :length
WHERE (SELECT count(*) FROM memories WHERE user_id = :user_id) < :capacity
ON CONFLICT DO NOTHING
RETURNING id
""")

SELECT_DUPLICATE = prepare("""
SELECT id, content, scope, said_at FROM memories
WHERE user_id = :user_id AND content_key = :content_key AND scope = :scope
      AND (scope = 'private' OR (platform = :platform AND platform_server_id = :server))
""")

LIST = """
SELECT id, content, scope, said_at FROM memories WHERE {condition}
ORDER BY said_at DESC, id DESC LIMIT :limit OFFSET :skip
"""

FORGET = "DELETE FROM memories WHERE {condition} AND id = :memory_id RETURNING source, conversation_id, scope"


class MemoryFull(ToolError):
    """{capacity:,} memories are kept, which is the most; forget some that are no longer needed first."""

    code = "memory_full"


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A stored memory. `scope` is `private` (visible in direct messages only) or `server`."""

    id: int
    content: str
    scope: str
    said_at: datetime


class Memories:
    """The memories of all users; `of_user` gives those of one user that are visible in one place.

    Without an embedder (`EMBEDDING_MODEL`), recall uses words only.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        clock: Clock,
        *,
        embedder: Embedder | None = None,
        capacity: int = CAPACITY,
    ) -> None:
        self._database = database
        self._clock = clock
        self._capacity = capacity
        self._embedder = embedder or open_embedder(settings, clock)
        self._vectors = Vectors(database, self._embedder, clock) if self._embedder else None

    def of_user(
        self, user_id: int, place: Place, conversation_id: int | None, speaker: str | None = None
    ) -> "MemoryOfUser":
        """Return the memories of this user that are visible in this place."""
        return MemoryOfUser(
            Visibility.of(user_id, place),
            conversation_id,
            speaker and clean(speaker)[:MAX_SPEAKER_CHARS],
            database=self._database,
            clock=self._clock,
            embedder=self._embedder,
            vectors=self._vectors,
            capacity=self._capacity,
        )

    async def fill_vectors(self, limit: int = 32) -> int:
        """Embed up to `limit` memories without vectors of the current model; returns how many, within seconds."""
        return await self._vectors.fill_missing(limit) if self._vectors else 0

    async def warm(self) -> None:
        """Load the embedder, which takes seconds the first time."""
        if self._embedder is not None:
            await self._embedder.load()

    async def aclose(self) -> None:
        """Close the embedder's connections."""
        if self._embedder is not None:
            await self._embedder.aclose()


@dataclass(frozen=True, slots=True)
class MemoryOfUser:
    """The memories of one user that are visible in one place."""

    visibility: Visibility
    conversation_id: int | None
    speaker: str | None
    database: Database
    clock: Clock
    embedder: Embedder | None = None
    vectors: Vectors | None = None
    capacity: int = CAPACITY

    async def remember(self, content: str, source: str = "fact") -> StoredMemory:
        """Store a text and return its memory; for a text that is stored already, return the existing one.

        With the `source` `turn` it is a message of the conversation, found also by the words of its neighbours. Raises
        `ToolError` for a text that is empty or too long, `MemoryFull` when the user has `capacity` memories.
        """
        content = _validated_content(content)
        async with self._transaction() as session:
            stored, is_new = await self._store(session, content, source)
        if is_new and self.vectors is not None:
            try:
                await self.vectors.fill(self.visibility.user_id, [stored.id], conversation_id=self.conversation_id)
            except EmbeddingUnavailable:
                # The embedder has logged it, and `fill_vectors` adds the vectors later.
                return stored
        return stored

    async def recall(self, query: str, k: int = 5) -> list[RecalledMemory]:
        """Return at most `k` memories that match the query, by descending score, newer before older.

        A query of stop words only ("what do you know about me?") returns the newest.
        """
        query = clean(query)[:MAX_CHARS]
        if k < 1:
            return []
        model = self.embedder.model if self.embedder else None
        async with self._transaction() as session:
            found = await find_by_words(session, self.visibility, question_words(query), k=k, model=model)
        if self.embedder is None or not found.has_vectors or not query.strip():
            return list(found.best)
        try:
            question = await self.embedder.embed([query])
        except EmbeddingUnavailable:
            return list(found.best)
        async with self._transaction() as session:
            return await find_by_vectors(
                session,
                self.visibility,
                found,
                query=question,
                conversation_id=self.conversation_id,
            )

    async def list_all(self, limit: int = 100, skip: int = 0) -> list[StoredMemory]:
        """Return the memories, newest first."""
        statement = prepare(LIST.format(condition=self.visibility.condition))
        async with self._transaction() as session:
            rows = await session.execute(statement, self.visibility.parameters | {"limit": limit, "skip": skip})
            return [StoredMemory(*row) for row in rows]

    async def forget(self, memory_id: int) -> bool:
        """Delete a memory and its index entries; returns False when none with this id is visible here."""
        if not 0 < memory_id <= MAX_ID:
            return False
        statement = prepare(FORGET.format(condition=self.visibility.condition))
        async with self._transaction() as session:
            row = (
                await session.execute(statement, self.visibility.parameters | {"memory_id": memory_id})
            ).one_or_none()
            if row is not None and row.source == TURN and row.conversation_id is not None:
                await rebuild_windows(
                    session,
                    self.visibility.user_id,
                    conversation_id=row.conversation_id,
                    scope=row.scope,
                    memory_id=memory_id,
                )
        return row is not None

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncSession]:
        async with self.database.transaction() as session:
            await act_for(session, self.visibility.user_id)
            yield session

    async def _store(self, session: AsyncSession, content: str, source: str) -> tuple[StoredMemory, bool]:
        said_at, key = self.clock.now(), content_key(content)
        words = count_words(dated(content, said_at))
        parameters = self.visibility.parameters | {
            "scope": self.visibility.scope,
            "content_key": key,
            "capacity": self.capacity,
        }
        parameters |= {"conversation_id": self.conversation_id, "said_at": said_at, "speaker": self.speaker}
        parameters |= {"content": content, "source": source, "length": words.total()}
        memory_id = (await session.execute(ADD, parameters)).scalar_one_or_none()
        if memory_id is None:
            same = (await session.execute(SELECT_DUPLICATE, parameters)).one_or_none()
            if same is None:
                raise MemoryFull(capacity=self.capacity)
            return StoredMemory(*same), False
        user_id = self.visibility.user_id
        await add_postings(session, user_id, {(memory_id, "turn"): words})
        if source == TURN and self.conversation_id is not None:
            await rebuild_windows(
                session,
                user_id,
                conversation_id=self.conversation_id,
                scope=self.visibility.scope,
                memory_id=memory_id,
            )
        return StoredMemory(memory_id, content, self.visibility.scope, said_at=said_at), True


def _validated_content(content: str) -> str:
    content = clean(content).strip()
    if not content:
        raise ToolError("There is nothing to remember: the text is empty.")
    if len(content) > MAX_CONTENT_CHARS:
        raise ToolError(
            f"A memory has at most {MAX_CONTENT_CHARS:,} characters, this has {len(content):,}: say it in fewer words."
        )
    return content
