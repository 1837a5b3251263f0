"""Memory: keep what people want remembered, find it again, list it, forget it."""

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
# A number beyond this is no row's, and Postgres would refuse it.
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

FIND_SAME = prepare("""
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
    """A memory as it is kept. `scope` is `private` (direct messages only) or `server`."""

    id: int
    content: str
    scope: str
    said_at: datetime


class Memories:
    """Everybody's memories; `of_user` narrows them to what one user may see in one place.

    Without an embedder (`EMBEDDING_MODEL`), recall goes by words alone.
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
        """Return this user's memories as far as this place may see them."""
        return MemoryOfUser(
            Visibility.of(user_id, place),
            conversation_id,
            speaker and clean(speaker)[:MAX_SPEAKER_CHARS],
            self._database,
            self._clock,
            self._embedder,
            self._vectors,
            self._capacity,
        )

    async def fill_vectors(self, limit: int = 32) -> int:
        """Give memories without vectors of today's model theirs; returns how many got them, after seconds at most."""
        return await self._vectors.fill_missing(limit) if self._vectors else 0

    async def warm(self) -> None:
        """Make the embedder ready, which takes seconds the first time."""
        if self._embedder is not None:
            await self._embedder.load()

    async def aclose(self) -> None:
        """Close the embedder's connections."""
        if self._embedder is not None:
            await self._embedder.aclose()


@dataclass(frozen=True, slots=True)
class MemoryOfUser:
    """The memories of one user, as far as one place may see them."""

    visibility: Visibility
    conversation_id: int | None
    speaker: str | None
    database: Database
    clock: Clock
    embedder: Embedder | None = None
    vectors: Vectors | None = None
    capacity: int = CAPACITY

    async def remember(self, content: str, source: str = "fact") -> StoredMemory:
        """Keep a text; the same text again gives the memory that is there already.

        `source` is `turn` for a line of the conversation, which is then found by its neighbours too. Raises
        `ToolError` for a text that is empty or too long, `MemoryFull` when the user's memory is full.
        """
        content = _checked(content)
        async with self._transaction() as session:
            stored, is_new = await self._store(session, content, source)
        if is_new and self.vectors is not None:
            try:
                await self.vectors.fill(self.visibility.user_id, [stored.id], conversation_id=self.conversation_id)
            except EmbeddingUnavailable:
                # The embedder has said so once; `fill_vectors` comes by later.
                return stored
        return stored

    async def recall(self, query: str, k: int = 5) -> list[RecalledMemory]:
        """Return at most `k` memories that have to do with the query, the best first, newer before older.

        A query without any telling word ("what do you know about me?") gives the newest.
        """
        query = clean(query)[:MAX_CHARS]
        if k < 1:
            return []
        model = self.embedder.model if self.embedder else None
        async with self._transaction() as session:
            found = await find_by_words(session, self.visibility, question_words(query), k, model)
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
                question,
                self.embedder.model,
                k=k,
                conversation_id=self.conversation_id,
            )

    async def list_all(self, limit: int = 100, skip: int = 0) -> list[StoredMemory]:
        """Return the memories, the newest first."""
        statement = prepare(LIST.format(condition=self.visibility.condition))
        async with self._transaction() as session:
            rows = await session.execute(statement, self.visibility.parameters | {"limit": limit, "skip": skip})
            return [StoredMemory(*row) for row in rows]

    async def forget(self, memory_id: int) -> bool:
        """Delete a memory with all that it is found by; False when there is none with this id to be seen here."""
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
        given = self.visibility.parameters | {
            "scope": self.visibility.scope,
            "content_key": key,
            "capacity": self.capacity,
        }
        given |= {"conversation_id": self.conversation_id, "said_at": said_at, "speaker": self.speaker}
        given |= {"content": content, "source": source, "length": words.total()}
        memory_id = (await session.execute(ADD, given)).scalar_one_or_none()
        if memory_id is None:
            same = (await session.execute(FIND_SAME, given)).one_or_none()
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
        return StoredMemory(memory_id, content, self.visibility.scope, said_at), True


def _checked(content: str) -> str:
    content = clean(content).strip()
    if not content:
        raise ToolError("There is nothing to remember: the text is empty.")
    if len(content) > MAX_CONTENT_CHARS:
        raise ToolError(
            f"A memory has at most {MAX_CONTENT_CHARS:,} characters, this has {len(content):,}: say it in fewer words."
        )
    return content
