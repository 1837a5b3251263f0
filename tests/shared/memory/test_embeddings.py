"""Recall with an embedder, over HTTP to a stand-in for the provider."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from shared.clock import SystemClock
from shared.db.database import Database
from shared.memory.embeddings import (
    DEADLINE_SECONDS,
    DIMENSIONS,
    Embedded,
    EmbeddingUnavailable,
    LiteLLMEmbedder,
    RequestLimits,
)
from shared.memory.memories import Memories, NewMemory, Origin
from shared.messages import Place, Usage
from shared.settings import Settings
from tests.shared.memory.conftest import Admin
from tests.shared.memory.test_memories import new_conversation
from tests.standins.openai_api import OpenAIStub
from tests.support.counted_database import CountedDatabase

HOME = Place("discord", None, "dm-1", is_direct=True)
NOWHERE = "http://127.0.0.1:9/v1"
FUNCTION = re.compile(r"parley_\w+")


class WordCountEmbedder:
    """An embedder with one dimension for each of four words."""

    WORDS = ("north", "south", "east", "west")
    limits = RequestLimits()

    def __init__(self, model: str) -> None:
        self.model = model
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str], *, deadline_seconds: float = DEADLINE_SECONDS) -> Embedded:
        self.asked += texts
        counts = [[float(text.lower().count(word)) for word in self.WORDS] + [1.0] for text in texts]
        return Embedded(tuple(tuple(row) for row in counts), Usage(input_tokens=7 * len(texts)))

    async def load(self) -> None:
        """Nothing to load."""

    async def aclose(self) -> None:
        """Nothing to close."""


@pytest.fixture
def settings(model: OpenAIStub, tmp_path: Path) -> Settings:
    return Settings(
        parley_home=tmp_path,
        embedding_model="openai/small",
        openai_base_url=model.base_url,
        openai_api_key=SecretStr("sk-test"),
    )


@pytest.fixture
async def memories(database: Database, settings: Settings) -> AsyncIterator[Memories]:
    memories = Memories(database, settings, SystemClock())
    await memories.warm()
    yield memories
    await memories.aclose()


async def contents(memories: Memories, user_id: int, query: str, k: int = 5) -> list[str]:
    return [hit.content for hit in await memories.of_user(user_id, HOME, None).recall(query, k)]


async def test_vectors_find_memories_that_words_do_not(memories: Memories, ann: int, model: OpenAIStub) -> None:
    memory = memories.of_user(ann, HOME, None)
    for fact in ("Ann dislikes vegetables", "The photograph hangs upstairs", "Ann's flight leaves at noon"):
        await memory.remember(fact)

    # Neither query shares a word with its answer; the stand-in computes its vectors from parts of words.
    assert (await contents(memories, ann, "vegetarian?", 1)) == ["Ann dislikes vegetables"]
    assert (await contents(memories, ann, "photographer", 1)) == ["The photograph hangs upstairs"]
    assert model.embeddings[0].body["model"] == "small"
    assert model.embeddings[0].body["dimensions"] == DIMENSIONS


async def test_tokens_of_embeddings_are_charged(memories: Memories, ann: int, admin: Admin) -> None:
    await memories.of_user(ann, HOME, None).remember("Ann dislikes vegetables")
    await contents(memories, ann, "vegetarian?")

    logs = await admin.rows("SELECT purpose, model, user_id, input_tokens FROM token_logs ORDER BY id")
    assert [row[:3] for row in logs] == [("embedding", "openai/small", ann)] * 2
    assert await admin.rows("SELECT tokens_used_this_month FROM users") == [(sum(row[3] for row in logs),)]


async def test_a_query_is_not_embedded_without_memories(memories: Memories, ann: int, model: OpenAIStub) -> None:
    assert await contents(memories, ann, "vegetarian?") == []
    assert not model.embeddings


async def test_remember_and_recall_work_while_the_embedder_fails(
    database: Database, settings: Settings, ann: int, admin: Admin, memories: Memories
) -> None:
    broken = Memories(database, settings.model_copy(update={"openai_base_url": NOWHERE}), SystemClock())
    await broken.warm()
    with capture_logs() as logs:
        await broken.of_user(ann, HOME, None).remember("Ann dislikes vegetables")
        await broken.of_user(ann, HOME, None).remember("Ann's dog is called Rex")
        assert await contents(broken, ann, "Which vegetable?") == ["Ann dislikes vegetables"]
    await broken.aclose()

    assert [log["event"] for log in logs] == ["embedding_failed"]
    assert await admin.rows("SELECT count(*) FROM memory_vectors") == [(0,)]
    await admin.overdue()
    assert await memories.fill_vectors() == 2
    assert await memories.fill_vectors() == 0
    assert (await contents(memories, ann, "vegetarian?", 1)) == ["Ann dislikes vegetables"]


async def test_when_embedding_the_query_fails_recall_uses_words(
    database: Database, settings: Settings, ann: int, memories: Memories
) -> None:
    await memories.of_user(ann, HOME, None).remember("Ann dislikes vegetables")
    broken = Memories(database, settings.model_copy(update={"openai_base_url": NOWHERE}), SystemClock())

    assert await contents(broken, ann, "Which vegetable?") == ["Ann dislikes vegetables"]
    await broken.aclose()


async def test_recall_by_meaning_takes_a_statement_for_each_search_and_reads_texts_once(
    counted: CountedDatabase, settings: Settings, ann: int
) -> None:
    memories = Memories(counted, settings, SystemClock(), embedder=WordCountEmbedder("words"))
    memory = memories.of_user(ann, HOME, None)
    await memory.remember("Ann dislikes the north")
    counted.statements.clear()

    assert [hit.content for hit in await memory.recall("What is north?")] == ["Ann dislikes the north"]
    assert [FUNCTION.findall(statement) for statement in counted.statements] == [
        ["parley_recall_by_words"],
        ["parley_charge_embeddings"],
        ["parley_recall_by_vectors"],
    ]
    matches = await memory.find_by_words("What is north?")
    assert (list(matches.rows), len(matches.scores)) == ([], 1)


async def test_an_unresponsive_provider_is_waited_for_once(settings: Settings) -> None:
    hung = asyncio.Event()

    async def never_answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hung.wait()
        writer.close()

    server = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    embedder = LiteLLMEmbedder(
        settings.model_copy(update={"openai_base_url": f"http://127.0.0.1:{address[1]}/v1"}), SystemClock()
    )
    await embedder.load()
    for _ in range(20):
        with pytest.raises(EmbeddingUnavailable):
            await embedder.embed(["walrus"], deadline_seconds=0.2)
    hung.set()
    await embedder.aclose()
    server.close()
    await server.wait_closed()


async def test_two_workers_do_not_embed_the_same_memories(database: Database, ann: int, admin: Admin) -> None:
    for number in range(6):
        await Memories(database, Settings(), SystemClock()).of_user(ann, HOME, None).remember(f"Fact {number}")
    await admin.overdue()
    embedders = [WordCountEmbedder("shared"), WordCountEmbedder("shared")]
    workers = [Memories(database, Settings(), SystemClock(), embedder=embedder) for embedder in embedders]

    assert sum(await asyncio.gather(*(worker.fill_vectors(3) for worker in workers))) == 6
    assert len(embedders[0].asked + embedders[1].asked) == 6
    assert await admin.rows("SELECT count(*) FROM memory_vectors") == [(6,)]


async def test_the_background_job_does_not_claim_a_memory_that_is_being_stored(database: Database, ann: int) -> None:
    await Memories(database, Settings(), SystemClock()).of_user(ann, HOME, None).remember("Ann walks north")
    embedder = WordCountEmbedder("shared")

    assert await Memories(database, Settings(), SystemClock(), embedder=embedder).fill_vectors() == 0
    assert embedder.asked == []


async def test_messages_of_a_conversation_have_a_vector_of_their_window(
    database: Database, ann: int, admin: Admin
) -> None:
    embedder = WordCountEmbedder("windows")
    memories = Memories(database, Settings(), SystemClock(), embedder=embedder)
    rows = await admin.rows(
        "INSERT INTO conversations (platform, platform_channel_id) VALUES ('discord', 'c') RETURNING id"
    )
    memory = memories.of_user(ann, HOME, rows[0][0])
    records = [await memory.remember(line, "turn") for line in ("We went north", "It rained", "Then home")]
    await admin.overdue()

    assert await memories.fill_vectors() == 2
    assert len(await admin.rows("SELECT 1 FROM memory_vectors WHERE kind = 'window'")) == 3
    assert "We went north\nIt rained\nThen home" in embedder.asked[-1] + embedder.asked[-3]
    assert await memory.forget(records[0].id)
    assert len(await admin.rows("SELECT 1 FROM memory_vectors WHERE memory_id = $1", records[0].id)) == 0
    assert len(await admin.rows("SELECT 1 FROM memory_vectors WHERE kind = 'window'")) == 1


async def test_the_texts_of_vectors_say_who_said_them(database: Database, ann: int, admin: Admin) -> None:
    embedder = WordCountEmbedder("speakers")
    memories = Memories(database, Settings(), SystemClock(), embedder=embedder)
    said_at = datetime(2026, 5, 4, tzinfo=UTC)
    origin = Origin(HOME, await new_conversation(database))
    await memories.add(
        [
            NewMemory(ann, origin, content, said_at, speaker=speaker)
            for speaker, content in (("Ann", "The dog is Rex"), ("Bob", "Nice"), (None, "Noted"))
        ]
    )
    await admin.overdue()
    await memories.fill_vectors()

    assert {"04 May 2026: Ann: The dog is Rex", "04 May 2026: Noted"} < set(embedder.asked)
    assert "04 May 2026: Ann: The dog is Rex\nBob: Nice\nNoted" in embedder.asked


async def test_a_vector_of_the_maximum_dimensions_fits_the_index(database: Database, ann: int, admin: Admin) -> None:
    class Wide(WordCountEmbedder):
        async def embed(self, texts: Sequence[str], *, deadline_seconds: float = DEADLINE_SECONDS) -> Embedded:
            return Embedded(tuple((1.0,) * 1280 for _ in texts), Usage())

    memories = Memories(database, Settings(), SystemClock(), embedder=Wide("wide"))
    await memories.of_user(ann, HOME, None).remember("Ann walks north")

    assert await admin.rows("SELECT vector_dims(embedding) FROM memory_vectors") == [(1280,)]
    assert await contents(memories, ann, "south") == ["Ann walks north"]
