"""Creates and stores the vectors of memories, after the memories themselves are committed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from shared.clock import Clock
from shared.db.database import Database
from shared.memory.embeddings import DEADLINE_SECONDS, Embedded, Embedder, EmbeddingUnavailable
from shared.memory.index import IndexedText, list_texts
from shared.memory.recall import CHARGE, to_halfvec
from shared.memory.visibility import act_for, prepare

BACKGROUND_SECONDS = 4.0
# With less time left, a healthy provider could time out and be put in cooldown.
MIN_SECONDS = 1.0
# Some models reject longer texts, and the rest of a text hardly changes its vector.
MAX_CHARS = 4000

CLAIM = prepare("SELECT user_id, memory_id FROM parley_claim_memories_without_vectors(:model, :limit)")

# The join skips memories that were deleted, or whose window has changed, since they were read.
STORE = prepare(f"""
WITH {CHARGE}, given AS (
    SELECT m.id, g.kind, g.vector FROM unnest(:ids, :kinds, :vectors, :lengths) AS g (id, kind, vector, length)
    JOIN memories AS m ON m.id = g.id AND m.user_id = :user_id AND m.window_length IS NOT DISTINCT FROM g.length
), completed AS (
    UPDATE memories SET vector_model = :model WHERE user_id = :user_id AND id IN (SELECT id FROM given)
)
INSERT INTO memory_vectors (user_id, model, kind, memory_id, embedding)
SELECT :user_id, :model, kind, id, CAST(vector AS halfvec) FROM given
ON CONFLICT (memory_id, model, kind) DO UPDATE SET embedding = excluded.embedding
""")

DROP_OLD_MODELS = prepare("""
DELETE FROM memory_vectors WHERE user_id = :user_id AND model <> :model AND NOT EXISTS (
    SELECT FROM memories WHERE user_id = :user_id AND vector_model IS DISTINCT FROM :model
)
""")


class Vectors:
    """Embeds memories, stores their vectors and charges the cost to their user."""

    def __init__(self, database: Database, embedder: Embedder, clock: Clock) -> None:
        self._database = database
        self._embedder = embedder
        self._clock = clock

    async def fill_missing(self, limit: int, *, seconds: float = BACKGROUND_SECONDS) -> int:
        """Embed up to `limit` memories of any users that lack vectors of the current model; returns how many.

        Takes at most `seconds`. Memories that were claimed but not reached can be claimed again a minute later.
        """
        until = self._clock.monotonic() + seconds
        filled = 0
        for user_id, memory_ids in (await self._claim(limit)).items():
            left = until - self._clock.monotonic()
            if left < MIN_SECONDS:
                return filled
            try:
                filled += await self.fill(user_id, memory_ids, deadline_seconds=left)
            except EmbeddingUnavailable:
                return filled
        return filled

    async def _claim(self, limit: int) -> Mapping[int, Sequence[int]]:
        claimed: defaultdict[int, list[int]] = defaultdict(list)
        async with self._database.transaction() as session:
            rows = await session.execute(CLAIM, {"model": self._embedder.model, "limit": limit})
            for user_id, memory_id in rows:
                claimed[user_id].append(memory_id)
        return claimed

    async def fill(
        self,
        user_id: int,
        memory_ids: Sequence[int],
        *,
        conversation_id: int | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> int:
        """Embed these memories of a user, store the vectors and return how many; raises `EmbeddingUnavailable`."""
        async with self._database.transaction() as session:
            await act_for(session, user_id)
            texts = await list_texts(session, memory_ids)
        if not texts:
            return 0
        contents = [text[:MAX_CHARS] for each in texts for text in each.texts.values()]
        embedded = await self._embedder.embed(contents, deadline_seconds=deadline_seconds)
        await self._store(user_id, conversation_id, texts, embedded=embedded)
        return len(texts)

    async def _store(
        self, user_id: int, conversation_id: int | None, texts: Sequence[IndexedText], embedded: Embedded
    ) -> None:
        rows = [(each.memory_id, kind, each.window_length) for each in texts for kind in each.texts]
        spent = {"tokens": embedded.usage.input_tokens, "cost": embedded.usage.cost, "conversation_id": conversation_id}
        owner = {"user_id": user_id, "model": self._embedder.model}
        vectors = {
            "ids": [memory_id for memory_id, _, _ in rows],
            "kinds": [kind for _, kind, _ in rows],
            "lengths": [length for _, _, length in rows],
            "vectors": [to_halfvec(vector) for vector in embedded.vectors],
        }
        async with self._database.transaction() as session:
            await act_for(session, user_id)
            await session.execute(STORE, owner | spent | vectors)
            await session.execute(DROP_OLD_MODELS, owner)
