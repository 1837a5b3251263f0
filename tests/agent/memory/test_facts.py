"""Facts that people state are read when a conversation pauses: with their source, once, replaced when they change."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from agent.memory.facts import Statement, read_facts
from agent.memory.summaries.summarizer import Summarizer
from agent.queue.edits import change_message
from agent.queue.redaction import redact
from shared.clock import SystemClock
from shared.db.driver import Session
from shared.memory.memories import Memories, StoredMemory
from shared.memory.own import forget_own
from shared.memory.storage import Added, NewMemory
from tests.standins.openai_api import OpenAIStub
from tests.support.eventually import PATIENCE
from tests.support.parley import Parley
from tests.support.summaries import memories, pause, pause_and_summarise, remembered, summarise, summarised_by

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
SAID = Statement(1, 7, message_id="m7", speaker="Ann", typed="I live in Graz and own 2 dogs.", said_at=NOW)


def fact(content: str, **fields: Any) -> dict[str, Any]:
    return {"message": 1, "fact": content, "confidence": 0.9, "replaces": None} | fields


async def facts(parley: Parley) -> list[Any]:
    return [memory for memory in await memories(parley) if memory["source"] == "fact"]


async def test_a_fact_has_its_source_its_date_and_its_confidence(parley: Parley, model: OpenAIStub) -> None:
    model.play(summarised_by(lambda _: {"summary": "Ann lives in Graz.", "facts": [fact("Ann lives in Graz.")]}))
    answer = await parley.ask("By the way, I live in Graz.", event_id="m1")
    await pause_and_summarise(parley)

    [memory] = await facts(parley)

    assert (memory["content"], memory["scope"], memory["turn_id"]) == ("Ann lives in Graz.", "private", answer.turn_id)
    assert (memory["platform_message_id"], memory["speaker"]) == ("m1", "Ann")
    assert memory["confidence"] == pytest.approx(0.9)
    assert memory["said_at"] == await parley.value("SELECT created_at FROM messages WHERE role = 'user'")


async def test_a_fact_that_contradicts_another_one_replaces_it_and_the_old_one_stays_as_history(
    parley: Parley, model: OpenAIStub
) -> None:
    model.play(summarised_by(lambda _: {"summary": "Ann lives in Graz.", "facts": [fact("Ann lives in Graz.")]}))
    await parley.ask("I live in Graz.", server="guild")
    await pause_and_summarise(parley)
    memory_id = (await facts(parley))[0]["id"]
    prompts: list[str] = []

    def moved(text: str) -> dict[str, Any]:
        prompts.append(text)
        return {"summary": "Ann moved to Lisbon.", "facts": [fact("Ann lives in Lisbon.", replaces=memory_id)]}

    model.play(summarised_by(moved))
    await parley.ask("I moved: now I live in Lisbon.", server="guild")
    await pause_and_summarise(parley)

    old, new = await facts(parley)
    assert f"({memory_id}) Ann lives in Graz." in prompts[0]
    assert (old["superseded_by"], new["superseded_by"], new["scope"]) == (new["id"], None, "server")


async def test_the_same_fact_is_kept_once(parley: Parley, model: OpenAIStub) -> None:
    model.play(summarised_by(lambda _: {"summary": "Ann lives in Graz.", "facts": [fact("Ann lives in Graz!")] * 2}))
    for _ in range(2):
        await parley.ask("I live in Graz.")
        await pause_and_summarise(parley)

    assert len(await facts(parley)) == 1


async def test_a_fact_goes_with_the_message_that_it_came_from(parley: Parley, model: OpenAIStub) -> None:
    model.play(summarised_by(lambda _: {"summary": "Ann lives in Graz.", "facts": [fact("Ann lives in Graz.")]}))
    await parley.ask("I live in Graz.", event_id="m1")
    await pause_and_summarise(parley)
    model.play(summarised_by(lambda _: {"summary": "Nothing.", "facts": []}))

    await redact(parley.app.database, parley.app.files.storage, platform="test", message_ids=["m1"])

    assert await facts(parley) == []


class HeldMemories(Memories):
    """Memories whose facts are stored, but not committed until `go` is set."""

    def __init__(self, real: Memories) -> None:
        self.of_user = real.of_user  # type: ignore[method-assign]  # the real ones, but for `add`
        self._real, self.stored, self.go = real, asyncio.Event(), asyncio.Event()

    async def add(self, memories: Sequence[NewMemory], session: Session | None = None) -> list[Added | None]:
        records = await self._real.add(memories, session)
        self.stored.set()
        await self.go.wait()
        return records


async def delete(parley: Parley) -> None:
    await redact(parley.app.database, parley.app.files.storage, platform="test", message_ids=["m1"])


async def edit(parley: Parley) -> None:
    await change_message(parley.app.database, "test", "m1", "I live nowhere.")


async def forget(parley: Parley) -> None:
    turn_memory = next(memory for memory in await memories(parley) if memory["source"] == "turn")
    async with parley.app.database.transaction() as session:
        await forget_own(session, turn_memory["user_id"], [turn_memory["id"]])


@pytest.mark.parametrize("remove", [delete, edit, forget])
async def test_a_fact_that_is_stored_while_its_message_goes_is_gone_too(
    parley: Parley, model: OpenAIStub, remove: Callable[[Parley], Coroutine[Any, Any, None]]
) -> None:
    model.play(summarised_by(lambda _: {"summary": "Ann lives in Graz.", "facts": [fact("Ann lives in Graz.")]}))
    await parley.ask("I live in Graz.", event_id="m1", server="guild")
    await remembered(parley)
    app, worker = parley.app, parley.worker
    assert worker is not None
    # Its own summariser must not come first.
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    memories = HeldMemories(app.memory)
    await pause(parley)
    writing = asyncio.create_task(Summarizer(app.database, app.models.router, memories, SystemClock()).run())
    async with asyncio.timeout(PATIENCE):
        await memories.stored.wait()
    model.play(summarised_by(lambda _: {"summary": "Nothing.", "facts": []}))

    removing = asyncio.create_task(remove(parley))
    blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(PATIENCE):
        while not removing.done() and not await parley.value(blocked):  # noqa: ASYNC110  # it waits for the lock
            await asyncio.sleep(0.02)
    memories.go.set()
    await asyncio.gather(writing, removing)

    await summarise(parley)
    assert await facts(parley) == []


def read_entries(*entries: Any, memories: tuple[StoredMemory, ...] = ()) -> list[tuple[str, int | None]]:
    facts = read_facts(list(entries), {1: SAID}, {1: memories})
    return [(fact.content, fact.replaces) for fact in facts]


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "Ann lives in Graz.",
        {},
        fact("Ann lives in Graz.", message=2),
        fact("Ann lives in Graz.", message="1"),
        fact(""),
        fact("Ann lives in Graz. " * 30),
        fact("Ann lives in Graz.", confidence=0.2),
        fact("Ann lives in Graz.", confidence="high"),
        fact("Zelda's cat prefers expensive salmon every Tuesday."),
    ],
)
def test_what_is_no_fact_of_a_message_is_left_out(bad: Any) -> None:
    assert read_entries(bad, fact("Ann owns 2 dogs.")) == [("Ann owns 2 dogs.", None)]


def test_anything_but_a_list_has_no_facts() -> None:
    for answer in (None, "facts", {"fact": 1}, 7):
        assert read_facts(answer, {1: SAID}, {}) == []


def test_only_a_known_fact_of_the_same_person_is_replaced() -> None:
    graz = StoredMemory(5, "Ann lives in Vienna.", "private", NOW)

    assert read_entries(fact("Ann lives in Graz.", replaces=5), memories=(graz,)) == [("Ann lives in Graz.", 5)]
    assert read_entries(fact("Ann lives in Graz.", replaces=6), memories=(graz,)) == [("Ann lives in Graz.", None)]


def test_facts_that_differ_by_a_number_are_different() -> None:
    owned = StoredMemory(5, "Ann owns 3 dogs.", "private", NOW)

    assert read_entries(fact("Ann owns 2 dogs."), memories=(owned,)) == [("Ann owns 2 dogs.", None)]
    assert read_entries(fact("Ann owns 2 dogs.", replaces=5), memories=(owned,)) == [("Ann owns 2 dogs.", 5)]
    assert read_entries(fact("Ann owns 3 dogs"), memories=(owned,)) == []
