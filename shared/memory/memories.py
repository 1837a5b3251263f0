"""Memories of users: remember, recall, list and forget."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from shared.clock import Clock
from shared.db.database import Database
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import ToolError
from shared.memory.embedders import Embedders
from shared.memory.embeddings import Embedder, EmbeddingUnavailable, LiteLLMEmbedder, Price, at_unknown_price
from shared.memory.own import OwnMemory, forget_visible, list_similar
from shared.memory.parameters import TYPES
from shared.memory.recall import (
    Neighbour,
    RecalledMemory,
    Search,
    WordMatches,
    find_by_vectors,
    find_by_words,
    find_in_indexes,
    plan_search,
)
from shared.memory.storage import CAPACITY, Added, NewMemory, Origin, Source, add_memories, index_missing
from shared.memory.tokenizer import MAX_CONTENT_CHARS, question_words
from shared.memory.vector_indexes import build_vector_indexes
from shared.memory.vectors import MAX_CHARS, Vectors, charge
from shared.memory.visibility import Visibility, act_in
from shared.messages import Author, Place
from shared.settings import Settings
from shared.text import MAX_ID, clean

statements = load_statements(__file__, TYPES)

__all__ = [
    "Memories",
    "MemoryFull",
    "MemoryOfUser",
    "Neighbour",
    "NewMemory",
    "Origin",
    "RecalledMemory",
    "StoredMemory",
    "WordMatches",
]


class MemoryFull(ToolError):
    """{capacity:,} memories are kept, which is the most; forget some that are no longer needed first."""

    code = "memory_full"


class StoredMemory(Struct, frozen=True):
    """A stored memory. `scope` is `private` (visible in direct messages only), `server` or `everywhere`."""

    id: int
    content: str
    scope: str
    said_at: datetime
    author: Author = "person"


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
        price: Price = at_unknown_price,
        capacity: int = CAPACITY,
    ) -> None:
        self._database = database
        self._clock = clock
        self._capacity = capacity
        self._embedders = Embedders(settings, clock, embedder, price=price)
        current = self._embedders.current
        self._vectors = Vectors(database, current, clock) if current else None

    def of_user(
        self,
        user_id: int,
        place: Place,
        conversation_id: int | None,
        speaker: str | None = None,
        *,
        turn_id: int | None = None,
        author: Author = "person",
    ) -> "MemoryOfUser":
        """Return the memories of this user that are visible in this place.

        `turn_id` is the turn that asks, `author` who may have written what it remembers.
        """
        return MemoryOfUser(
            Visibility(user_id, place),
            conversation_id,
            speaker,
            database=self._database,
            clock=self._clock,
            embedders=self._embedders,
            vectors=self._vectors,
            capacity=self._capacity,
            turn_id=turn_id,
            author=author,
        )

    async def add(self, memories: Sequence[NewMemory], session: Session | None = None) -> list[Added | None]:
        """Store memories of any persons in one statement, in the session's transaction or in one of their own.

        They are found by their words at once; a worker makes their vectors. See `add_memories` for what is returned.
        """
        if session is not None:
            return await add_memories(session, memories, capacity=self._capacity)
        async with self._database.transaction() as own:
            return await add_memories(own, memories, capacity=self._capacity)

    async def find_similar(self, visibility: Visibility, query: str, limit: int) -> list[OwnMemory]:
        """Return this person's memories that are nearest in meaning, nearest first; none while there is no embedder."""
        embedder = self._embedders.current
        if embedder is None:
            return []
        try:
            question = await embedder.embed([clean(query)[:MAX_CHARS]])
        except EmbeddingUnavailable:
            return []
        async with self._database.transaction() as session:
            payer = (visibility.user_id, None)
            await charge(session, {payer: 1.0}, embedder.model, usage=question.usage)
            return await list_similar(session, visibility, embedder.model, vector=question.vectors[0], limit=limit)

    async def index_missing(self, limit: int = 500) -> int:
        """Index up to `limit` memories that an admin has inserted; returns how many."""
        async with self._database.transaction() as session:
            return await index_missing(session, limit)

    async def build_vector_indexes(self) -> int:
        """Make the vector indexes of scopes with very many memories, and return how many; it may take minutes."""
        return await build_vector_indexes(self._database) if self._vectors else 0

    async def fill_vectors(self, limit: int | None = None) -> int:
        """Embed the memories without vectors of the current model, at most `limit`; returns how many."""
        return await self._vectors.fill_missing(limit) if self._vectors else 0

    @property
    def model(self) -> str | None:
        """Return the name of the current embedding model, None without one."""
        return self._embedders.current.model if self._embedders.current else None

    async def warm(self) -> None:
        """Load litellm for the embedder, which takes seconds; the local model starts with its first text."""
        if isinstance(self._embedders.current, LiteLLMEmbedder):
            await self._embedders.current.load()

    async def plan(self) -> None:
        """Let the database's connections plan the search, so that the first searches of a burst need not."""
        await self._database.warm(partial(plan_search, has_vectors=self._vectors is not None))

    async def aclose(self) -> None:
        """Close the embedders' connections."""
        await self._embedders.aclose()


class MemoryOfUser(Struct, frozen=True):
    """The memories of one user that are visible in one place."""

    visibility: Visibility
    conversation_id: int | None
    speaker: str | None
    database: Database
    clock: Clock
    embedders: Embedders
    vectors: Vectors | None = None
    capacity: int = CAPACITY
    turn_id: int | None = None
    author: Author = "person"

    async def remember(self, content: str, source: Source = "remembered", *, everywhere: bool = False) -> StoredMemory:
        """Store a text and return its memory; for a text that is stored already, return the existing one.

        With the `source` `turn` it is a message of the conversation, found also by the words of its neighbours. A
        memory that is wanted `everywhere` is visible in all places of the person. Raises `ToolError` for a text that is
        empty or too long, `MemoryFull` when the user has `capacity` memories.
        """
        content = clean(content).strip()
        if not content:
            raise ToolError("There is nothing to remember: the text is empty.")
        if len(content) > MAX_CONTENT_CHARS:
            most = f"{MAX_CONTENT_CHARS:,} characters"
            raise ToolError(f"A memory has at most {most}, this has {len(content):,}: say it in fewer words.")
        user_id, place = self.visibility.user_id, self.visibility.place
        new = NewMemory(
            user_id,
            Origin(place, self.conversation_id, turn_id=self.turn_id),
            content,
            said_at=self.clock.now(),
            source=source,
            speaker=self.speaker,
            scope="everywhere" if everywhere else None,
            author=self.author,
        )
        async with self._transaction() as session:
            [addition] = await add_memories(session, [new], capacity=self.capacity)
            if addition is None or addition.memory_id is None:
                raise MemoryFull(capacity=self.capacity)
            memory = StoredMemory(
                *(await session.execute(statements.get_memory, {"memory_id": addition.memory_id})).one()
            )
        if addition.is_new and self.vectors is not None:
            try:
                await self.vectors.fill([memory.id])
            except EmbeddingUnavailable:
                # The embedder has logged it, and `fill_vectors` adds the vectors later.
                return memory
        return memory

    async def recall(
        self,
        query: str,
        k: int = 5,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        shown_from: int | None = None,
    ) -> list[RecalledMemory]:
        """Return at most `k` memories that match the query, by descending score, newer before older.

        Only what was said from `since` until `until`, and without the messages of this conversation from the turn
        `shown_from` on. A query of stop words only ("what do you know about me?") returns the newest.
        """
        if k < 1:
            return []
        by_words = await self.find_by_words(query, k, since=since, until=until, shown_from=shown_from)
        return await self.recall_by_meaning(query, by_words)

    async def find_by_words(
        self,
        query: str,
        k: int = 5,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        shown_from: int | None = None,
    ) -> WordMatches:
        """Return what the database alone finds for a query of `recall`: nobody else gets its text, or is paid."""
        search = Search(
            question_words(clean(query)[:MAX_CHARS]),
            k,
            since=since,
            until=until,
            conversation_id=self.conversation_id,
            shown_from=shown_from,
            vectors_follow=self.embedders.current is not None and bool(query.strip()),
        )
        async with self.database.statement() as session:
            return await find_by_words(session, self.visibility, search)

    async def recall_by_meaning(self, query: str, by_words: WordMatches) -> list[RecalledMemory]:
        """Return the memories that match the query, of which these are found by its words; pays the embedder."""
        if by_words.model is None or not by_words.search.vectors_follow:
            return by_words.choose_best()
        try:
            question = await self.embedders.of(by_words.model).embed([clean(query)[:MAX_CHARS]])
        except EmbeddingUnavailable:
            async with self.database.statement() as connection:
                search = replace(by_words.search, vectors_follow=False)
                return (await find_by_words(connection, self.visibility, search)).choose_best()
        near = {}
        if by_words.has_indexes:
            async with self._transaction() as session:
                near = await find_in_indexes(session, by_words, question)
        payer = (self.visibility.user_id, self.conversation_id)
        async with self.database.statement() as connection:
            await charge(connection, {payer: 1.0}, by_words.model, usage=question.usage)
            return await find_by_vectors(connection, self.visibility, by_words, query=question, near=near)

    async def list_all(self, limit: int = 100, skip: int = 0) -> list[StoredMemory]:
        """Return the facts that are remembered about the user, newest first, without messages of conversations."""
        parameters = {"visibility": json.dumps(self.visibility.settings), "limit": limit, "skip": skip}
        async with self.database.statement() as session:
            return [StoredMemory(*row) for row in (await session.execute(statements.list_memories, parameters)).all()]

    async def read(self, ids: Sequence[int]) -> dict[int, StoredMemory]:
        """Return those of these memories that still exist and are visible here, by id."""
        async with self._transaction() as session:
            rows = (await session.execute(statements.list_by_ids, {"ids": list(ids)})).all()
        return {row.id: StoredMemory(*row) for row in rows}

    async def forget(self, memory_id: int) -> bool:
        """Delete a memory and what else was made of the turn that it was said in; the turn that asks is forgotten, too.

        Returns False when no memory with this id is visible here.
        """
        if not 0 < memory_id <= MAX_ID:
            return False
        async with self._transaction() as session:
            return await forget_visible(session, self.visibility.user_id, [memory_id], asked_in=self.turn_id) > 0

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Session]:
        async with self.database.transaction() as session:
            await act_in(session, self.visibility)
            yield session
