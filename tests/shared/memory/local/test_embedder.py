"""The local embedder, with the real model."""

import asyncio
import math
import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # the package has no types
import pytest
from structlog.testing import capture_logs

from shared.environments import find_python
from shared.errors import ConfigurationError
from shared.memory.embedders import Embedders, explain_recall
from shared.memory.embeddings import COOLDOWN_SECONDS, EmbeddingUnavailable
from shared.memory.local.embedder import PROGRAM, LocalEmbedder
from shared.settings import LOCAL_EMBEDDING_MODELS, Settings, settings_from
from tests.support.clocks import SetClock

(MODEL,) = LOCAL_EMBEDDING_MODELS
MOST_MEMORY = 300_000_000
PARENT = f"""
import asyncio
from shared.clock import SystemClock
from shared.memory.local.embedder import LocalEmbedder

async def main():
    await LocalEmbedder({MODEL!r}, SystemClock()).load()
    print("loaded", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def clock() -> SetClock:
    return SetClock(datetime(2026, 5, 4, tzinfo=UTC))


@pytest.fixture(scope="module")
async def embedder(clock: SetClock) -> AsyncIterator[LocalEmbedder]:
    """One for all tests: its program takes seconds to start."""
    embedder = LocalEmbedder(MODEL, clock)
    yield embedder
    await embedder.aclose()


def cosine(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


def program_of(parent: int) -> psutil.Process:
    """Return the program that a process has started last."""
    programs = [child for child in psutil.Process(parent).children() if str(PROGRAM) in child.cmdline()]
    return max(programs, key=psutil.Process.create_time)


async def test_texts_of_the_same_meaning_are_near_in_other_words_and_in_another_language(
    embedder: LocalEmbedder,
) -> None:
    await embedder.load()
    facts = ("Meine Schwester wohnt in Hamburg.", "The landlord raised the rent to 1400 euros.", "I never eat meat.")
    questions = ("Where does my sister live?", "Was kostet meine Wohnung?", "Am I a vegetarian?")

    vectors = (await embedder.embed([*facts, *questions], deadline_seconds=30)).vectors
    for number, question in enumerate(vectors[3:]):
        scores = [cosine(question, fact) for fact in vectors[:3]]
        assert scores.index(max(scores)) == number
    assert {len(vector) for vector in vectors} == {512}
    assert all(abs(cosine(vector, vector) - 1) < 1e-3 for vector in vectors)


async def test_ctrl_c_is_left_to_the_process_that_started_the_program(embedder: LocalEmbedder) -> None:
    await embedder.load()
    program = program_of(os.getpid())
    program.send_signal(signal.SIGINT)

    assert (await embedder.embed(["I never eat meat."], deadline_seconds=30)).vectors
    assert program_of(os.getpid()) == program


async def test_the_program_ends_without_a_word_when_nobody_reads_its_answers() -> None:
    python, pipe = find_python(LOCAL_EMBEDDING_MODELS[MODEL]), asyncio.subprocess.PIPE
    reader, writer = os.pipe()
    program = await asyncio.create_subprocess_exec(str(python), str(PROGRAM), stdin=pipe, stdout=writer, stderr=pipe)
    os.close(writer)
    os.close(reader)

    _, complaints = await program.communicate(b'["text"]\n')
    assert complaints == b""


async def test_a_message_does_not_wait_while_the_model_is_loaded(clock: SetClock) -> None:
    embedder = LocalEmbedder(MODEL, clock)
    with pytest.raises(EmbeddingUnavailable):
        await embedder.embed(["first"])

    await embedder.load()
    assert (await embedder.embed(["second"])).usage.input_tokens == 0
    await embedder.aclose()


async def test_texts_of_any_kind_have_a_vector(embedder: LocalEmbedder) -> None:
    await embedder.load()
    texts = ["", "😀😀", "\x00", "\ud800", "שלום עולם", "x" * 4000, "数据库" * 1000, "line\nline\r\nline"]

    embedded = await embedder.embed(texts, deadline_seconds=30)
    assert len(embedded.vectors) == len(texts)
    assert all(math.isfinite(number) for vector in embedded.vectors for number in vector)


async def test_the_program_uses_little_memory(embedder: LocalEmbedder) -> None:
    await embedder.load()
    await embedder.embed([f"{number} words " * 250 for number in range(100)], deadline_seconds=60)

    assert program_of(os.getpid()).memory_info().rss < MOST_MEMORY


async def test_a_caller_that_gives_up_does_not_shift_the_answers_of_the_others(embedder: LocalEmbedder) -> None:
    await embedder.load()
    vectors = (await embedder.embed(["Ann walks north"])).vectors
    long = asyncio.create_task(embedder.embed(["long " * 800] * 20, deadline_seconds=30))
    await asyncio.sleep(0)
    long.cancel()

    answers = await asyncio.gather(*(embedder.embed([text]) for text in ("Ann walks south", "Ann walks north")))
    assert answers[1].vectors == vectors
    assert answers[0].vectors != vectors


async def test_a_program_that_was_killed_is_started_again(embedder: LocalEmbedder, clock: SetClock) -> None:
    await embedder.load()
    task = asyncio.create_task(embedder.embed(["long " * 800] * 100, deadline_seconds=60))
    await asyncio.sleep(0)
    with capture_logs() as logs:
        program_of(os.getpid()).send_signal(signal.SIGKILL)
        with pytest.raises(EmbeddingUnavailable):
            await task
        with pytest.raises(EmbeddingUnavailable):
            await embedder.embed(["too early"])
    assert [log["event"] for log in logs] == ["local_embedder_failed"]

    clock.moment += timedelta(seconds=COOLDOWN_SECONDS)
    await embedder.load()
    assert len((await embedder.embed(["again"])).vectors) == 1


async def test_the_program_ends_with_the_process_that_started_it() -> None:
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    assert await parent.stdout.readline() == b"loaded\n"
    program = program_of(parent.pid)

    parent.kill()
    await parent.wait()
    await asyncio.to_thread(program.wait, 30)


def test_the_short_name_is_stored_as_the_full_one() -> None:
    assert settings_from({"EMBEDDING_MODEL": "local"}).embedding_model == MODEL
    assert settings_from({"EMBEDDING_MODEL": MODEL}).embedding_model == MODEL


def test_an_unknown_local_model_stops_the_start_with_the_names_that_exist() -> None:
    with pytest.raises(ConfigurationError, match=f"EMBEDDING_MODEL is wrong: .*{MODEL}"):
        settings_from({"EMBEDDING_MODEL": "local/nothing"})


def test_the_start_says_by_what_memories_are_found() -> None:
    assert explain_recall(Settings()) == "by words"
    assert explain_recall(Settings(embedding_model="local")) == "by meaning (local model)"
    assert explain_recall(Settings(embedding_model="voyage/voyage-3")) == "by meaning (voyage/voyage-3)"


def test_without_a_setting_the_installed_model_is_used_and_off_switches_it_off() -> None:
    assert settings_from({}).embedding_model == MODEL
    assert settings_from({"EMBEDDING_MODEL": "off"}).embedding_model is None


async def test_an_idle_program_ends_and_the_next_text_starts_it_again(clock: SetClock) -> None:
    embedder = LocalEmbedder(MODEL, clock, idle_seconds=1.0)
    await embedder.load()
    program = program_of(os.getpid())
    await asyncio.to_thread(program.wait, 30)

    await embedder.load()
    assert (await embedder.embed(["Ada plays the cello"])).vectors
    await embedder.aclose()


async def test_the_embedder_of_an_earlier_model_is_opened_once(clock: SetClock, tmp_path: Path) -> None:
    embedders = Embedders(Settings(parley_home=tmp_path, embedding_model="openai/new"), clock)

    assert embedders.current is not None
    assert embedders.current.model == "openai/new"
    assert embedders.of("openai/old") is embedders.of("openai/old")
    assert isinstance(embedders.of(MODEL), LocalEmbedder)
    await embedders.aclose()
