"""Filling in vectors: in batches and in parallel, through a change of the model, with an embedder that misbehaves."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from shared.clock import SystemClock
from shared.db.database import Database
from shared.memory.embeddings import PARALLEL_REQUESTS, PROBE, LiteLLMEmbedder, RequestLimits, unit_vector
from shared.memory.memories import Memories
from shared.memory.storage import NewMemory, Origin
from shared.memory.vectors import MISMATCH_SECONDS, Pending, read_progress, split
from shared.messages import Place
from shared.settings import Settings
from tests.shared.memory.conftest import Admin
from tests.standins.openai_api import Fault, OpenAIStub
from tests.standins.openai_api.script import Body

HOME = Place("discord", None, "dm-1", is_direct=True)
CHANNEL = Place("discord", "server-1", "channel-1", is_direct=False)
AT_HOME = Origin(HOME)
SAID = datetime(2026, 5, 4, tzinfo=UTC)


class MovableClock(SystemClock):
    """A monotonic clock that the test moves on."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
async def open_memories(
    database: Database, tmp_path: Path, model: OpenAIStub, clock: MovableClock
) -> AsyncIterator[Callable[[str], Memories]]:
    memorieses: list[Memories] = []

    def opening(name: str) -> Memories:
        settings = Settings(
            parley_home=tmp_path,
            embedding_model=name,
            openai_base_url=model.base_url,
            openai_api_key=SecretStr("sk-test"),
        )
        memorieses.append(Memories(database, settings, clock))
        return memorieses[-1]

    yield opening
    for memories in memorieses:
        await memories.aclose()


@pytest.fixture
async def memories(open_memories: Callable[[str], Memories]) -> Memories:
    memories = open_memories("openai/small")
    await memories.warm()
    return memories


async def add(memories: Memories, user_id: int, contents: Sequence[str], origin: Origin = AT_HOME) -> None:
    await memories.add([NewMemory(user_id, origin, content, SAID, source="fact") for content in contents])


async def contents(memories: Memories, user_id: int, query: str, k: int = 1) -> list[str]:
    return [hit.content for hit in await memories.of_user(user_id, HOME, None).recall(query, k)]


def answer(vectors: Sequence[Sequence[float]]) -> Fault:
    data = [
        {"object": "embedding", "index": number, "embedding": list(vector)} for number, vector in enumerate(vectors)
    ]
    return Fault(200, {"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}})


async def test_many_memories_are_embedded_in_few_requests_several_at_once(
    memories: Memories, ann: int, admin: Admin, model: OpenAIStub
) -> None:
    await add(memories, ann, [f"Fact number {number} about topic {number % 7}" for number in range(1000)])
    await admin.overdue()
    model.before_embedding = lambda _body: asyncio.sleep(0.05)

    assert await memories.fill_vectors() == 1000
    assert len(model.embeddings) <= 16
    assert 1 < model.embedding_peak <= PARALLEL_REQUESTS
    assert await admin.rows("SELECT count(*), count(DISTINCT memory_id) FROM memory_vectors") == [(1000, 1000)]
    assert await memories.fill_vectors() == 0


async def test_progress_counts_the_memories_without_vectors_of_the_current_model(
    memories: Memories, database: Database, ann: int, admin: Admin
) -> None:
    await add(memories, ann, [f"Fact {number}" for number in range(4)])
    await admin.overdue()
    await memories.fill_vectors(3)

    progress = await read_progress(database, "openai/small")
    assert (progress.memories, progress.missing, progress.share) == (4, 1, 0.75)
    assert (await read_progress(database, "openai/other")).missing == 4


async def test_the_old_vectors_answer_until_the_new_ones_are_complete(
    open_memories: Callable[[str], Memories], ann: int, admin: Admin, model: OpenAIStub
) -> None:
    before, after = open_memories("openai/old"), open_memories("openai/new")
    await before.warm()
    await after.warm()
    await add(before, ann, ["Ann dislikes vegetables", "The photograph hangs upstairs", "Ann's flight leaves at noon"])
    await admin.overdue()
    assert await before.fill_vectors() == 3

    await admin.overdue()
    assert await after.fill_vectors(2) == 2
    assert await contents(after, ann, "vegetarian?") == ["Ann dislikes vegetables"]
    assert model.embeddings[-1].body["model"] == "old"
    assert set(await admin.rows("SELECT DISTINCT model FROM memory_vectors")) == {("openai/old",), ("openai/new",)}

    await admin.overdue()
    assert await after.fill_vectors() == 1
    assert await contents(after, ann, "vegetarian?") == ["Ann dislikes vegetables"]
    assert model.embeddings[-1].body["model"] == "new"
    assert await admin.rows("SELECT DISTINCT model FROM memory_vectors") == [("openai/new",)]


async def test_words_answer_while_the_old_model_cannot_be_reached(
    open_memories: Callable[[str], Memories], ann: int, admin: Admin, model: OpenAIStub
) -> None:
    before, after = open_memories("openai/old"), open_memories("openai/new")
    await before.warm()
    await after.warm()
    await add(before, ann, ["Ann dislikes vegetables", "The photograph hangs upstairs"])
    await admin.overdue()
    await before.fill_vectors()
    model.embedding_fault = lambda body: Fault(500) if body["model"] == "old" else None

    assert await contents(after, ann, "Where hangs the photograph?") == ["The photograph hangs upstairs"]


async def test_a_changed_number_of_dimensions_is_an_error_with_its_remedy_and_the_turn_goes_on(
    memories: Memories, ann: int, admin: Admin, model: OpenAIStub, clock: MovableClock
) -> None:
    await add(memories, ann, ["Ann dislikes vegetables"])
    await admin.overdue()
    await memories.fill_vectors()
    await add(memories, ann, ["Ann likes tea"])
    await admin.overdue()
    model.embedding_fault = lambda body: answer([[0.6, 0.8]] * len(body["input"]))
    with capture_logs() as logs:
        assert await memories.fill_vectors() == 0
        assert await contents(memories, ann, "Which vegetables?") == ["Ann dislikes vegetables"]

    [failed] = [log for log in logs if log["event"] == "embedding_failed"]
    assert "2 dimensions" in failed["cause"]
    assert "parley_drop_vectors('openai/small')" in failed["remedy"]
    assert await admin.rows("SELECT count(*) FROM memory_vectors") == [(1,)]
    assert await admin.rows("SELECT parley_drop_vectors('openai/small')") == [(1,)]
    clock.ahead += MISMATCH_SECONDS
    await admin.overdue()
    assert await memories.fill_vectors() == 2
    assert await admin.rows("SELECT model, dimensions FROM embedding_models") == [("openai/small", 2)]


@pytest.mark.parametrize(
    ("vectors", "cause"),
    [
        ([[float("nan"), 1.0]], "NaN"),
        ([[0.0, 0.0]], "zeros"),
        ([[1.0], [1.0]], "2 vectors for 1 texts"),
        ([[1.0] * 1281], "1281 dimensions"),
        ([], "0 vectors for 1 texts"),
    ],
)
async def test_an_unusable_answer_is_logged_with_its_cause_and_the_memory_stays(
    memories: Memories, ann: int, model: OpenAIStub, vectors: list[list[float]], cause: str
) -> None:
    model.embedding_fault = lambda _body: answer(vectors)
    with capture_logs() as logs:
        await memories.of_user(ann, HOME, None).remember("Ann dislikes vegetables")

    [failed] = [log for log in logs if log["event"] == "embedding_failed"]
    assert cause in failed["cause"]
    model.embedding_fault = lambda _body: None
    assert await contents(memories, ann, "Which vegetables?") == ["Ann dislikes vegetables"]


async def test_the_pause_that_the_provider_names_is_kept(
    memories: Memories, ann: int, admin: Admin, model: OpenAIStub, clock: MovableClock
) -> None:
    await add(memories, ann, ["Ann dislikes vegetables"])
    await admin.overdue()
    model.embedding_fault = lambda _body: Fault(429, retry_after=90)
    assert await memories.fill_vectors() == 0
    model.embedding_fault = lambda _body: None
    count = len(model.embeddings)

    clock.ahead += 80
    await admin.overdue()
    assert await memories.fill_vectors() == 0
    assert len(model.embeddings) == count
    clock.ahead += 11
    await admin.overdue()
    assert await memories.fill_vectors() == 1


async def test_a_refused_text_does_not_hold_up_the_others(
    memories: Memories, ann: int, admin: Admin, model: OpenAIStub
) -> None:
    await add(memories, ann, [*(f"Fact {number}" for number in range(20)), "a poisoned text"])
    await admin.overdue()
    model.embedding_fault = lambda body: Fault(400) if "poisoned" in json.dumps(body["input"]) else None

    with capture_logs() as logs:
        assert await memories.fill_vectors() == 20
    assert [log["event"] for log in logs] == ["embedding_refused"]
    await admin.overdue()
    assert await memories.fill_vectors() == 0
    assert await contents(memories, ann, "poisoned") == ["a poisoned text"]


async def test_a_model_that_refuses_everything_is_not_asked_text_by_text(
    memories: Memories, ann: int, admin: Admin, model: OpenAIStub
) -> None:
    await add(memories, ann, [f"Fact {number}" for number in range(20)])
    await admin.overdue()
    model.embedding_fault = lambda _body: Fault(400)

    with capture_logs() as logs:
        assert await memories.fill_vectors() == 0
    assert [log["cause"] for log in logs] == ["BadRequestError: check EMBEDDING_MODEL: the provider refuses any text"]
    assert model.embeddings[-1].body["input"] == [PROBE]
    assert len(model.embeddings) <= 3


async def test_the_person_and_the_server_pay(memories: Memories, ann: int, admin: Admin, database: Database) -> None:
    await admin.rows(
        "INSERT INTO servers (platform, platform_server_id, token_budget_monthly) VALUES ('discord', 'server-1', 99999)"
    )
    [(conversation_id,)] = await admin.rows(
        "INSERT INTO conversations (platform, platform_server_id, platform_channel_id)"
        " VALUES ('discord', 'server-1', 'channel-1') RETURNING id"
    )
    await add(memories, ann, ["Ann dislikes vegetables", "Ann likes tea"], Origin(CHANNEL, conversation_id))
    await admin.overdue()
    await memories.fill_vectors()
    await memories.of_user(ann, CHANNEL, conversation_id).recall("vegetarian?")

    [(spent, rows)] = await admin.rows("SELECT sum(input_tokens), count(*) FROM token_logs WHERE purpose = 'embedding'")
    assert rows == 2
    assert await admin.rows("SELECT tokens_used_this_month FROM users") == [(spent,)]
    assert await admin.rows("SELECT tokens_used_this_month FROM servers") == [(spent,)]


async def test_no_vector_is_stored_of_a_text_that_changed_meanwhile(
    memories: Memories, ann: int, admin: Admin, model: OpenAIStub
) -> None:
    await add(memories, ann, ["Ann dislikes vegetables", "Ann likes tea"])
    await admin.overdue()
    request, response = asyncio.Event(), asyncio.Event()

    async def wait(_body: Body) -> None:
        request.set()
        await response.wait()

    model.before_embedding = wait
    filling = asyncio.create_task(memories.fill_vectors(2))
    await request.wait()
    await admin.rows("UPDATE memories SET content = 'Ann is silent' WHERE content = 'Ann likes tea'")
    response.set()
    await filling

    assert await admin.rows(
        "SELECT content FROM memories JOIN memory_vectors ON memory_vectors.memory_id = memories.id"
    ) == [("Ann dislikes vegetables",)]


async def test_an_embedder_that_hangs_is_given_up(
    memories: Memories, ann: int, model: OpenAIStub, tmp_path: Path
) -> None:
    model.embedding_fault = lambda _body: Fault(hang=True)
    await memories.of_user(ann, HOME, None).remember("Ann dislikes vegetables")

    assert await contents(memories, ann, "vegetables") == ["Ann dislikes vegetables"]


def test_texts_of_a_memory_stay_in_one_request() -> None:
    pending = [Pending(number, (1, None), 0, {"turn": "a" * 10, "window": "b" * 30}) for number in range(5)]

    batches = list(split(pending, RequestLimits(texts=4, chars=1000)))
    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert [len(request) for request in split(pending, RequestLimits(texts=100, chars=79))] == [1] * 5


def test_a_vector_has_length_one() -> None:
    assert unit_vector([3.0, 4.0]) == (0.6, 0.8)


def test_limits_of_a_provider_are_those_that_most_accept() -> None:
    assert LiteLLMEmbedder.limits.texts <= 96
