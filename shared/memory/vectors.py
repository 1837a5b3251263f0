"""Creates and stores the vectors of memories, after the memories themselves are committed."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from msgspec import Struct

from shared.clock import Clock
from shared.db.database import Database
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.log import get_logger
from shared.memory.embeddings import (
    DEADLINE_SECONDS,
    Embedded,
    Embedder,
    EmbeddingRefused,
    EmbeddingUnavailable,
    RequestLimits,
)
from shared.memory.parameters import TYPES
from shared.memory.storage import Kind
from shared.memory.tokenizer import dated
from shared.messages import Usage

statements = load_statements(__file__, TYPES)

# A request of the background work has more texts than a question.
BACKGROUND_SECONDS = 60.0
# How many memories a worker claims for each request that it may have in flight.
CLAIMED_PER_REQUEST = 128
# A provider whose vectors can't be compared is asked again after this time.
MISMATCH_SECONDS = 600.0
SCOPES_PER_SWITCH = 100
# Some models reject longer texts, and the rest of a text hardly changes its vector.
MAX_CHARS = 4000


# A person, and the conversation whose server pays with them.
Payer = tuple[int, int | None]

log = get_logger()


class Pending(Struct, frozen=True):
    """A memory whose texts are to be embedded; the cost is charged to the person and to the conversation's server."""

    memory_id: int
    payer: Payer
    version: int
    texts: dict[Kind, str]

    @classmethod
    def from_row(cls, row: Any) -> Self:
        """Return a memory as it was read: alone, and between its neighbours if it has any."""
        parts = [
            _with_speaker(content, speaker)
            for content, speaker in (
                (row.before, row.before_speaker),
                (row.content, row.speaker),
                (row.after, row.after_speaker),
            )
            if content is not None
        ]
        texts: dict[Kind, str] = {"turn": dated(_with_speaker(row.content, row.speaker), row.said_at)[:MAX_CHARS]}
        if len(parts) > 1:
            texts["window"] = dated("\n".join(parts), row.said_at)[:MAX_CHARS]
        return cls(row.memory_id, (row.user_id, row.conversation_id), version=row.version, texts=texts)

    @property
    def chars(self) -> int:
        """Return the length of its texts."""
        return sum(map(len, self.texts.values()))


class Progress(Struct, frozen=True):
    """How many memories there are, and how many of them lack vectors of the current model."""

    model: str
    memories: int
    missing: int

    @property
    def share(self) -> float:
        """Return the share of memories that have vectors, from 0 to 1."""
        return 1.0 if self.memories <= 0 else max(0.0, 1 - self.missing / self.memories)


class Vectors:
    """Embeds memories in large requests, several at once, stores their vectors and charges the cost."""

    def __init__(self, database: Database, embedder: Embedder, clock: Clock) -> None:
        self._database = database
        self._embedder = embedder
        self._clock = clock
        self._may_switch = True
        self._paused_until = -MISMATCH_SECONDS

    async def fill_missing(self, limit: int | None = None) -> int:
        """Embed the memories of any users that lack vectors of the current model, until none is left.

        With a `limit`, so many at most. Several workers share the work; what one of them claimed but did not reach can
        be claimed again two minutes later. Returns how many were embedded.
        """
        most = limit or CLAIMED_PER_REQUEST * self._embedder.limits.parallel
        filled = 0
        try:
            while self._clock.monotonic() >= self._paused_until:
                async with self._database.transaction() as session:
                    parameters = {"model": self._embedder.model, "limit": most}
                    ids = list((await session.execute(statements.claim_vectors, parameters)).scalars())
                if ids:
                    await self._embedder.load()
                filled += await self.fill(ids, deadline_seconds=BACKGROUND_SECONDS)
                self._may_switch = self._may_switch or bool(ids)
                if len(ids) < most or limit is not None:
                    break
        except EmbeddingUnavailable as error:
            self._paused_until = self._clock.monotonic() + (error.retry_after or 0)
            return filled
        switched = SCOPES_PER_SWITCH if self._may_switch else 0
        while switched == SCOPES_PER_SWITCH:
            async with self._database.transaction() as session:
                parameters = {"model": self._embedder.model, "limit": SCOPES_PER_SWITCH}
                switched = int((await session.execute(statements.switch_vectors, parameters)).scalar_one())
        self._may_switch = False
        return filled

    async def fill(self, memory_ids: Sequence[int], *, deadline_seconds: float = DEADLINE_SECONDS) -> int:
        """Embed these memories, store the vectors and return how many; raises `EmbeddingUnavailable`."""
        if not memory_ids:
            return 0
        async with self._database.transaction() as session:
            rows = await session.execute(statements.list_texts_to_embed, {"ids": list(memory_ids)})
            pending = [Pending.from_row(row) for row in rows]
        in_flight = asyncio.Semaphore(self._embedder.limits.parallel)

        async def request(batch: list[Pending]) -> int:
            async with in_flight:
                return await self._fill_batch(batch, deadline_seconds)

        batches = list(split(pending, self._embedder.limits))
        # All are awaited, also after a failure: answers that were paid for are stored.
        results = await asyncio.gather(*map(request, batches), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return sum(result for result in results if isinstance(result, int))

    async def _fill_batch(self, batch: list[Pending], deadline_seconds: float) -> int:
        texts = [text for memory in batch for text in memory.texts.values()]
        try:
            embedded = await self._embedder.embed(texts, deadline_seconds=deadline_seconds)
        except EmbeddingRefused:
            if len(batch) > 1:
                halves = (batch[: len(batch) // 2], batch[len(batch) // 2 :])
                return sum([await self._fill_batch(half, deadline_seconds) for half in halves])
            log.warning("embedding_refused", model=self._embedder.model, memory=batch[0].memory_id)
            await self._store([], None, refusals=[batch[0].memory_id])
            return 0
        shares: defaultdict[Payer, float] = defaultdict(float)
        whole = sum(memory.chars for memory in batch)
        for memory in batch:
            shares[memory.payer] += memory.chars / whole
        async with self._database.transaction() as session:
            await charge(session, shares, self._embedder.model, usage=embedded.usage)
        await self._store(batch, embedded)
        return len(batch)

    async def _store(self, batch: Sequence[Pending], embedded: Embedded | None, refusals: Sequence[int] = ()) -> None:
        rows = [(memory.memory_id, kind, memory.version) for memory in batch for kind in memory.texts]
        vectors = embedded.vectors if embedded else ()
        dimensions = len(vectors[0]) if vectors else None
        parameters = {
            "model": self._embedder.model,
            "dimensions": dimensions,
            "ids": [memory_id for memory_id, _, _ in rows],
            "kinds": [kind for _, kind, _ in rows],
            "versions": [version for _, _, version in rows],
            # Thousands of numbers: the event loop goes on meanwhile.
            "vectors": await asyncio.to_thread(lambda: [to_halfvec(vector) for vector in vectors]),
            "refused": list(refusals),
        }
        async with self._database.transaction() as session:
            old_dimensions = (await session.execute(statements.store_vectors, parameters)).scalar_one()
        if dimensions is not None and old_dimensions != dimensions:
            log.warning(
                "embedding_failed",
                model=self._embedder.model,
                cause=f"it answers vectors of {dimensions} dimensions, and those that are stored have {old_dimensions}",
                remedy=f"SELECT parley_drop_vectors('{self._embedder.model}') in parley psql makes all anew",
            )
            raise EmbeddingUnavailable(retry_after=MISMATCH_SECONDS)


async def read_progress(database: Database, model: str) -> Progress:
    """Return how far the vectors of this model are."""
    async with database.transaction() as session:
        row = (await session.execute(statements.read_progress, {"model": model})).one()
    return Progress(model, row.memories, row.missing)


async def charge(session: Session, shares: Mapping[Payer, float], model: str, usage: Usage) -> None:
    """Charge an embedding to persons and to their conversations' servers, by shares of 1; a local one costs nothing."""
    if usage.input_tokens <= 0:
        return
    parameters = {
        "model": model,
        "user_ids": [user_id for user_id, _ in shares],
        "conversation_ids": [conversation_id for _, conversation_id in shares],
        "counts": [round(usage.input_tokens * share) for share in shares.values()],
        "costs": [None if usage.cost is None else usage.cost * share for share in shares.values()],
    }
    await session.execute(statements.charge_embeddings, parameters)


def split(pending: Sequence[Pending], limits: RequestLimits) -> Iterator[list[Pending]]:
    """Yield the memories in batches whose texts fit into one request; a memory's texts stay together."""
    batch: list[Pending] = []
    texts = chars = 0
    for memory in pending:
        if batch and (texts + len(memory.texts) > limits.texts or chars + memory.chars > limits.chars):
            yield batch
            batch, texts, chars = [], 0, 0
        batch.append(memory)
        texts += len(memory.texts)
        chars += memory.chars
    if batch:
        yield batch


def to_halfvec(vector: Sequence[float]) -> str:
    """Return the vector in pgvector's text format, with the five digits that half precision can use."""
    return f"[{','.join(['%.5g'] * len(vector))}]" % tuple(vector)


def _with_speaker(content: str, speaker: str | None) -> str:
    # Questions name people, and most messages don't name their writer.
    return f"{speaker}: {content}" if speaker else content
