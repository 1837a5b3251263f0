"""Batches of memories, and what recall gives beside the text: ranges of dates, neighbours, history left out."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from msgspec.structs import replace
from sqlalchemy import text

from shared.clock import SystemClock
from shared.db.database import Database
from shared.db.driver import Connection
from shared.db.pooling.room import POOL_SIZE
from shared.memory.memories import Memories, MemoryOfUser, NewMemory, Origin
from shared.memory.recall import WORD_BUDGET, RecalledMemory, Search, find_by_words
from shared.settings import Settings
from tests.shared.memory.test_memories import GUILD, HOME, contents, new_conversation
from tests.support.counted_database import CountedDatabase
from tests.support.filing import add_user

PLANNED = text("""
SELECT pg_backend_pid() AS pid, EXISTS (
    SELECT FROM pg_prepared_statements WHERE statement LIKE '%parley_recall_by_words%'
) AS is_planned
""")
FLUSHED = text("SELECT pg_stat_force_next_flush()")
NEWEST_SCANS = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'ix_memories_newest_of_scope'"
MARCH = datetime(2026, 3, 10, 12, tzinfo=UTC)
TOLD = {
    "My locker code is 4711.": "What is my locker code?",
    "My sister Clara lives in Lisbon.": "Where does my sister live?",
    "I am allergic to peanuts.": "What am I allergic to?",
    "My dog is called Rex.": "What is my dog called?",
    "I work as a nurse at the harbour hospital.": "Where do I work?",
    "My car has the number plate B-PX 220.": "What is the number plate of my car?",
    "I meet my tax adviser on 12 May.": "When do I meet my tax adviser?",
    "My favourite tea is lapsang souchong.": "which tea is my favourite",
    "The wifi password of the cabin is bluebird.": "What's the wifi password of the cabin?",
    "My flight to Oslo leaves at 6:40 in the morning.": "When does my flight to Oslo leave?",
    "I ride a green bicycle to work.": "What colour is my bicycle?",
    "My landlord is Mr Okafor.": "Who is my landlord?",
}


@pytest.fixture
async def conversation_id(database: Database) -> int:
    return await new_conversation(database)


def line(user_id: int, conversation_id: int, content: str, *, at: int = 0, is_from_bot: bool = False) -> NewMemory:
    return NewMemory(
        user_id,
        Origin(HOME, conversation_id),
        content,
        said_at=MARCH + timedelta(days=at),
        speaker="Parley" if is_from_bot else "Ann",
        is_from_bot=is_from_bot,
    )


async def test_a_search_planned_before_there_were_memories_reads_no_scope_for_a_neighbour(
    memories: Memories, database: Database, owner: asyncpg.Connection, ann: int, conversation_id: int
) -> None:
    memory = memories.of_user(ann, HOME, conversation_id)
    async with database.statement() as connection:
        search = Search(["walrus"], 5)
        await find_by_words(connection, memory.visibility, search)
        await memories.add([line(ann, conversation_id, f"Walrus number {n}") for n in range(100)])
        matches = await find_by_words(connection, memory.visibility, search)
        await connection.execute(FLUSHED)

    assert all(row.before_id or row.after_id for row in matches.rows)
    assert await owner.fetchval(NEWEST_SCANS) == 0


async def test_a_batch_of_many_persons_and_places_is_stored_by_one_statement(
    memories: Memories, database: Database, counted: CountedDatabase, ann: int, conversation_id: int, tmp_path: Path
) -> None:
    bob = await add_user(database)
    rows = [
        NewMemory(user_id, Origin(place, conversation_id), f"{user_id} walrus {n}", said_at=MARCH)
        for user_id in (ann, bob)
        for place in (HOME, GUILD)
        for n in range(10, 15)
    ]

    results = await Memories(counted, Settings(parley_home=tmp_path), SystemClock()).add(rows)

    assert len(counted.statements) == 1
    assert all(result is not None and result.is_new for result in results)
    assert set(await contents(memories.of_user(bob, HOME, None), "walrus", 20)) == {
        f"{bob} walrus {n}" for n in range(10, 15)
    }
    both = {f"{user_id} walrus {n}" for user_id in (ann, bob) for n in range(10, 15)}
    assert set(await contents(memories.of_user(bob, GUILD, None), "walrus", 20)) == both


async def test_facts_are_stored_once_and_messages_as_often_as_they_are_said(
    memories: Memories, ann: int, conversation_id: int
) -> None:
    fact = NewMemory(ann, Origin(HOME), "Ann likes tea", said_at=MARCH, source="fact")
    greeting = line(ann, conversation_id, "Good morning")

    first, again, empty, *messages = await memories.add(
        [fact, fact, line(ann, conversation_id, " \x00"), greeting, greeting]
    )
    [later] = await memories.add([fact])

    assert first is not None
    assert again is not None
    assert later is not None
    assert first.is_new
    assert (again.memory_id, again.is_new, later.memory_id) == (first.memory_id, False, first.memory_id)
    assert empty is None
    assert len({message.memory_id for message in messages if message is not None}) == 2


async def test_a_text_of_a_hundred_kilobytes_is_stored_in_parts_and_found(
    memories: Memories, ann: int, conversation_id: int
) -> None:
    long = " ".join(f"word{number}" for number in range(12_000))
    await memories.add([line(ann, conversation_id, long)])

    [hit] = await memories.of_user(ann, HOME, None).recall("word7777", 1)

    assert "word7777" in hit.content
    assert len(hit.content) <= 2000


async def test_recall_keeps_to_a_range_of_dates(memories: Memories, ann: int, conversation_id: int) -> None:
    await memories.add([line(ann, conversation_id, f"walrus of day {day}", at=day) for day in range(6)])
    memory = memories.of_user(ann, HOME, None)

    async def between(since: int | None, until: int | None, query: str = "walrus") -> set[str]:
        days = [None if day is None else MARCH + timedelta(days=day) for day in (since, until)]
        return {hit.content[-1] for hit in await memory.recall(query, 10, since=days[0], until=days[1])}

    assert await between(2, 4) == {"2", "3"}
    assert await between(4, None) == {"4", "5"}
    assert await between(None, 1) == {"0"}
    assert await between(2, 4, "what about me?") == {"2", "3"}


async def test_a_hit_comes_with_its_neighbours_and_its_speaker(
    memories: Memories, ann: int, conversation_id: int
) -> None:
    lines = ["Where did you go?", "To Lisbon by train", "How nice", "Unrelated talk"]
    await memories.add(
        [line(ann, conversation_id, sentence, is_from_bot=number % 2 == 0) for number, sentence in enumerate(lines)]
    )

    [hit] = await memories.of_user(ann, HOME, None).recall("Lisbon", 1)

    assert (hit.content, hit.speaker, hit.source, hit.is_from_bot) == (lines[1], "Ann", "turn", False)
    assert hit.before is not None
    assert hit.after is not None
    assert (hit.before.content, hit.before.speaker, hit.after.content) == (lines[0], "Parley", lines[2])
    assert hit.before.is_from_bot


async def test_neighbours_fit_the_word_budget_and_are_not_shown_twice(
    memories: Memories, ann: int, conversation_id: int
) -> None:
    await memories.add([line(ann, conversation_id, f"walrus {n} " + "and so on " * 20) for n in range(9)])

    hits = await memories.of_user(ann, HOME, None).recall("walrus", 2)

    neighbours = [near for hit in hits for near in (hit.before, hit.after) if near is not None]
    ids = [hit.id for hit in hits] + [neighbour.id for neighbour in neighbours]
    assert len(ids) == len(set(ids))
    texts = [hit.content for hit in hits] + [neighbour.content for neighbour in neighbours]
    assert sum(len(text.split()) for text in texts) <= WORD_BUDGET


async def test_messages_that_the_prompt_shows_anyway_are_not_recalled(
    memories: Memories, database: Database, ann: int, conversation_id: int
) -> None:
    async with database.transaction() as session:
        result = await session.execute(
            text(
                "INSERT INTO turns (conversation_id, status, finished_at)"
                " SELECT :id, 'answered', now() FROM generate_series(1, 2) RETURNING id"
            ),
            {"id": conversation_id},
        )
        old, new = result.scalars()
    places = {turn: Origin(HOME, conversation_id, turn) for turn in (old, new)}
    await memories.add([NewMemory(ann, at, f"walrus of turn {turn}", said_at=MARCH) for turn, at in places.items()])
    memory = memories.of_user(ann, HOME, conversation_id)

    assert [hit.content for hit in await memory.recall("walrus", shown_from=new)] == [f"walrus of turn {old}"]
    elsewhere: MemoryOfUser = memories.of_user(ann, HOME, None)
    assert len(await elsewhere.recall("walrus", shown_from=new)) == 2


async def test_a_superseded_fact_is_history_and_is_not_recalled(
    memories: Memories, owner: asyncpg.Connection, ann: int
) -> None:
    memory = memories.of_user(ann, HOME, None)
    old, new = await memory.remember("Ann lives in Bern"), await memory.remember("Ann lives in Oslo")
    await owner.execute("UPDATE memories SET superseded_by = $1 WHERE id = $2", new.id, old.id)

    assert await contents(memory, "where does Ann live?") == ["Ann lives in Oslo"]
    assert [fact.content for fact in await memory.list_all()] == ["Ann lives in Oslo"]
    assert await memory.forget(new.id)
    assert await owner.fetchval("SELECT count(*) FROM memories") == 0


async def test_what_a_person_asked_to_remember_comes_before_what_was_said(
    memories: Memories, ann: int, conversation_id: int
) -> None:
    await memories.of_user(ann, HOME, None).remember("The walrus is called Otto")
    await memories.add([line(ann, conversation_id, "The walrus is called Emil"), line(ann, conversation_id, "Hm")])

    assert (await contents(memories.of_user(ann, HOME, None), "what is the walrus called?"))[0].endswith("Otto")


async def test_connections_have_planned_the_search_before_a_burst(memories: Memories, database: Database) -> None:
    plans: dict[int, bool] = {}

    async def note(connection: Connection) -> None:
        row = (await connection.execute(PLANNED)).one()
        plans[row.pid] = row.is_planned

    await memories.plan()
    await database.warm(note)

    # One is left for others meanwhile.
    assert len(plans) == POOL_SIZE - 1
    assert all(plans.values())


async def test_facts_stay_the_first_lines_however_often_they_are_asked_for(
    memories: Memories, database: Database, ann: int
) -> None:
    conversation_id = await new_conversation(database)
    await memories.add([line(ann, conversation_id, sentence) for sentence in TOLD])
    for number in range(1, 5):
        first, echoes = 0, list[RecalledMemory]()
        for fact, question in TOLD.items():
            conversation_id = await new_conversation(database)
            recalled = await memories.of_user(ann, HOME, conversation_id).recall(question)
            first += bool(recalled) and recalled[0].content == fact
            answer = f"You told me: {fact}" if number % 2 else "I looked it up for you."
            talk = [question, answer, "Thanks, great!", "You're welcome!"]
            await memories.add(
                [
                    line(ann, conversation_id, sentence, at=number, is_from_bot=n % 2 == 1)
                    for n, sentence in enumerate(talk)
                ]
            )

            echoes += [hit for hit in recalled if hit.content == question]

        assert first >= 11, number
        assert echoes == [], number


async def test_what_was_told_once_is_recalled_behind_a_question_that_was_asked_two_hundred_times(
    memories: Memories, ann: int, conversation_id: int
) -> None:
    question, fact = "Where do I like to climb?", "Ann climbs in steep ice"
    told = "My whole family goes to the same old hut each summer, because from there one can climb in all directions."
    await memories.add([line(ann, conversation_id, told)])
    await memories.add([NewMemory(ann, Origin(HOME), fact, said_at=MARCH, source="fact")])
    await memories.add(
        [
            line(ann, conversation_id, sentence, at=day, is_from_bot=sentence != question)
            for day in range(1, 201)
            for sentence in (question, "You have told me what you like.")
        ]
    )

    assert {told, fact} <= set(await contents(memories.of_user(ann, HOME, None), question))


async def test_what_a_person_asked_to_remember_is_recalled_however_much_another_one_says_of_the_same(
    memories: Memories, database: Database, ann: int, conversation_id: int
) -> None:
    bob, memory = await add_user(database), memories.of_user(ann, GUILD, conversation_id)
    await memory.remember("My locker code is 4711")
    # Of many lengths, so that no two of them have the same score.
    talk = (f"The locker in hall {n} has a new code, says {'somebody ' * (n % 30)}" for n in range(200))
    said = replace(line(bob, conversation_id, ""), origin=Origin(GUILD, conversation_id), speaker="Bob")
    await memories.add([replace(said, content=f"{text} {'today' * (n // 30)}") for n, text in enumerate(talk)])

    assert (await contents(memory, "what is my locker code?"))[0] == "My locker code is 4711"


async def test_of_two_people_who_said_the_same_the_one_whom_the_question_names_is_recalled(
    memories: Memories, database: Database, ann: int, conversation_id: int
) -> None:
    bob = await add_user(database)
    for day, (user_id, speaker) in enumerate(((ann, "Ann"), (bob, "Bob"))):
        said = line(user_id, conversation_id, "Seafood makes me ill.", at=day)
        await memories.add([replace(said, origin=Origin(GUILD, conversation_id), speaker=speaker)])
    memory = memories.of_user(ann, GUILD, conversation_id)

    assert [hit.speaker for hit in await memory.recall("Does Ann eat seafood?")] == ["Ann"]
    assert [hit.speaker for hit in await memory.recall("Does Bob eat seafood?")] == ["Bob"]


async def test_of_what_was_said_in_two_conversations_the_newest_is_recalled(
    memories: Memories, database: Database, ann: int, conversation_id: int
) -> None:
    later_conversation_id = await new_conversation(database)
    await memories.add([line(ann, later_conversation_id, "The wifi password is bluebird")])
    await memories.add([line(ann, conversation_id, "The wifi password is BlueBird", at=5)])

    assert await contents(memories.of_user(ann, HOME, None), "what is the password of the wifi?") == [
        "The wifi password is BlueBird"
    ]
