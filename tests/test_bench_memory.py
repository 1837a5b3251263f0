"""The benchmark of recall, with little of everything."""

from pathlib import Path

from shared.clock import SystemClock
from shared.db.database import Address, Database
from shared.memory.memories import Memories
from shared.settings import Settings
from tests.bench.memory import to_figures
from tests.bench.memory_dialogues import make_dialogue
from tests.bench.memory_quality import measure_quality
from tests.bench.memory_scale import make_memories, measure_inserts, measure_recall
from tests.bench.memory_topics import HELD_OUT


def test_a_seed_gives_the_same_dialogue_each_time() -> None:
    dialogue = make_dialogue(3, lines=100)

    assert dialogue == make_dialogue(3, lines=100)
    assert dialogue != make_dialogue(4, lines=100)
    for question in dialogue.questions:
        assert question.evidence
        assert not question.evidence & question.outdated


async def test_recall_finds_more_than_plain_bm25_and_leaks_nothing(database: Database, tmp_path: Path) -> None:
    memories = Memories(database, Settings(parley_home=tmp_path), SystemClock())

    quality = await measure_quality(memories, database, seeds=(0, 1), lines=100)

    assert quality.questions > 50
    assert quality.leaks == 0
    assert quality.any_10 > quality.baseline_10
    assert {to_figure.name: to_figure.is_reached for to_figure in to_figures(quality, "all", with_embedder=False)}[
        "all: recall any@5"
    ]


async def test_the_local_embedder_finds_more_on_topics_that_nothing_was_tuned_on(
    database: Database, tmp_path: Path
) -> None:
    memories = Memories(database, Settings(parley_home=tmp_path, embedding_model="local"), SystemClock())
    await memories.warm()
    try:
        quality = await measure_quality(memories, database, seeds=(0,), lines=100, corpus=HELD_OUT)
    finally:
        await memories.aclose()

    assert quality.leaks == 0
    assert {to_figure.name: to_figure.is_reached for to_figure in to_figures(quality, "all", with_embedder=True)}[
        "all: recall any@5"
    ]


async def test_recall_is_measured_among_made_up_memories(database: Database, address: Address, tmp_path: Path) -> None:
    memories = Memories(database, Settings(parley_home=tmp_path), SystemClock())
    [owner, _] = await make_memories(address, [50, 20])

    durations = await measure_recall(memories, owner, 3)

    assert durations.count == 50
    assert 0 < durations.p50 <= durations.p99
    assert await measure_inserts(memories, owner.user_id, 20) > 0
