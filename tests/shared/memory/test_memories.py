"""Memories without an embedder: search by words, visibility, limits, and the number of statements."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from shared.clock import SystemClock
from shared.db.database import Database
from shared.errors import ToolError
from shared.memory.memories import Memories, MemoryFull, MemoryOfUser
from shared.memory.recall import Search, find_by_words
from shared.memory.storage import NewMemory, Origin, add_memories
from shared.memory.visibility import Visibility
from shared.messages import Place
from shared.settings import Settings
from tests.shared.memory.conftest import Admin
from tests.support.connections import connected, until_somebody_waits
from tests.support.counted_database import CountedDatabase
from tests.support.filing import add_user

HOME = Place("discord", None, "dm-1", is_direct=True)
GUILD = Place("discord", "guild-1", "general")
OTHER_GUILD = Place("discord", "guild-2", "general")


async def new_conversation(database: Database) -> int:
    async with database.transaction() as session:
        result = await session.execute(
            text(
                "INSERT INTO conversations (platform, platform_channel_id)"
                " VALUES ('discord', gen_random_uuid()) RETURNING id"
            )
        )
        return int(result.scalar_one())


async def contents(memory: MemoryOfUser, query: str, k: int = 5) -> list[str]:
    return [hit.content for hit in await memory.recall(query, k)]


async def tell(memory: MemoryOfUser, *facts: str) -> None:
    for fact in facts:
        await memory.remember(fact)


async def test_the_memory_that_matches_the_query_best_comes_first(memories: Memories, ann: int) -> None:
    memory = memories.of_user(ann, HOME, None)
    await tell(
        memory,
        "Ann's sister Clara lives in Lisbon.",
        "Ann is allergic to peanuts and shellfish.",
        "Ann's dog is called Rex.",
        "Ann works as a nurse in a hospital in Porto.",
    )

    assert (await contents(memory, "What is the name of my dog?"))[0] == "Ann's dog is called Rex."
    assert (await contents(memory, "any allergies or food she is allergic to?"))[0].endswith("shellfish.")
    assert (await contents(memory, "who is living in Lisbon"))[0].startswith("Ann's sister")
    assert await contents(memory, "quantum chromodynamics") == []


async def test_rare_words_count_more_than_common_ones(memories: Memories, ann: int) -> None:
    memory = memories.of_user(ann, HOME, None)
    await tell(memory, *(f"The meeting about project number {number} went well." for number in range(20)))
    await tell(memory, "The walrus likes the meeting.")

    assert (await contents(memory, "meeting project walrus"))[0] == "The walrus likes the meeting."


async def test_equal_scores_come_newest_first(memories: Memories, ann: int) -> None:
    memory = memories.of_user(ann, HOME, None)
    await tell(memory, "Likes tea in Riga", "Likes tea in Oslo", "Likes tea in Bern")

    assert await contents(memory, "tea") == ["Likes tea in Bern", "Likes tea in Oslo", "Likes tea in Riga"]
    assert await contents(memory, "tea", 1) == ["Likes tea in Bern"]
    assert await contents(memory, "tea", 0) == []


async def test_a_query_of_stop_words_returns_the_newest(memories: Memories, ann: int) -> None:
    memory = memories.of_user(ann, HOME, None)
    await tell(memory, "Plays the cello", "Lives in Ghent")

    assert await contents(memory, "what about me?", 1) == ["Lives in Ghent"]


async def test_words_match_whatever_their_accents_case_width_and_endings(memories: Memories, ann: int) -> None:
    memory = memories.of_user(ann, HOME, None)
    await tell(
        memory, "Their favourite café is in Orléans", "Was running \uff21\uff22\uff23-\uff17 marathons", "Любит чай"
    )

    assert await contents(memory, "cafe ORLEANS") == ["Their favourite café is in Orléans"]
    assert await contents(memory, "who runs abc 07?") == ["Was running \uff21\uff22\uff23-\uff17 marathons"]
    assert await contents(memory, "ЧАЙ") == ["Любит чай"]


async def test_scripts_of_all_kinds_are_found(
    memories: Memories, database: Database, subtests: pytest.Subtests
) -> None:
    for fact, question in (
        ("我养了一只黑猫名字叫小黑", "你还记得我的黑猫吗"),
        ("我养了一只黑猫名字叫小黑", "猫"),
        ("私は東京の病院で働いています", "東京はどこ"),
        ("ฉันชอบกินข้าวผัดกุ้ง", "ข้าวผัด"),
        ("मुझे चाय पसंद है", "चाय"),
        ("나는 서울에 산다", "서울에"),
        ("אני גר בחיפה", "מי גר בחיפה?"),
        ("أحب الشاي الأخضر", "الشاي؟"),
        ("🎺🎺", ""),
    ):
        with subtests.test(fact, question=question):
            memory = memories.of_user(await add_user(database), HOME, None)
            await tell(memory, "我喜欢在周末去爬山" if fact[0] == "我" else "Likes hiking", fact)

            assert (await contents(memory, question))[:1] == [fact]


async def test_a_memory_is_found_by_its_date(memories: Memories, ann: int) -> None:
    memory = memories.of_user(ann, HOME, None)
    await tell(memory, "Bought a red bicycle")

    assert await contents(memory, f"what happened in {datetime.now(UTC):%B %Y}?") == ["Bought a red bicycle"]


async def test_malformed_text_is_stored_and_searched_without_error(
    memories: Memories, database: Database, subtests: pytest.Subtests
) -> None:
    for garbage in ("\x00\x00", "\ud800", "🏳️‍🌈🏳️‍🌈", "' OR 1=1 --", ":user_id %s {0}", "a" * 5000, "\u0300\u0301", "%"):
        with subtests.test(ascii(garbage[:30])):
            memory = memories.of_user(await add_user(database), HOME, None)
            await tell(memory, f"keep {garbage[:900]} this")

            assert len(await memory.recall(garbage)) <= 1
            assert (await memory.list_all())[0].content.startswith("keep")


async def test_the_same_text_again_returns_the_existing_memory(memories: Memories, ann: int) -> None:
    memory = memories.of_user(ann, HOME, None)
    first = await memory.remember("Likes  green tea.")
    again = await memory.remember("likes green TEA")
    elsewhere = await memories.of_user(ann, GUILD, None).remember("Likes green tea.")

    assert again == first
    assert elsewhere.id != first.id
    assert (await memories.of_user(ann, GUILD, None).remember("likes green tea")).id == elsewhere.id
    assert (await memories.of_user(ann, OTHER_GUILD, None).remember("likes green tea")).id != elsewhere.id


async def test_the_same_text_remembered_concurrently_is_stored_once(memories: Memories, ann: int) -> None:
    memory = memories.of_user(ann, HOME, None)

    facts = await asyncio.gather(*(memory.remember("Likes green tea.") for _ in range(12)))

    assert len({fact.id for fact in facts}) == 1
    assert len(await memory.list_all()) == 1


async def test_who_pays_for_a_fact_and_who_stores_the_first_memory_wait_for_each_other_in_no_circle(
    database: Database, memories: Memories, ann: int
) -> None:
    async with database.transaction() as session:
        await session.execute(text("SELECT parley_lock_user(:user_id)"), {"user_id": ann})
        storing = asyncio.create_task(memories.of_user(ann, HOME, None).remember("Likes green tea."))
        holder = (await session.execute(text("SELECT pg_backend_pid()"))).scalar_one()
        async with connected(database.address) as watcher:
            await until_somebody_waits(watcher, holder)
        fact = NewMemory(ann, Origin(HOME), content="Lives in Graz.", said_at=datetime.now(UTC), source="fact")
        assert len(await add_memories(session, [fact])) == 1

    assert (await storing).id
    assert len(await memories.of_user(ann, HOME, None).list_all()) == 2


async def test_two_who_forget_in_several_scopes_wait_for_each_other_in_no_circle(
    database: Database, admin: Admin, ann: int
) -> None:
    places = [Place("discord", f"guild-{number}", "general") for number in range(12)]
    facts = [NewMemory(ann, Origin(place), "Likes tea.", datetime.now(UTC), source="fact") for place in places]
    async with database.transaction() as session:
        await add_memories(session, facts)
    lock = "SELECT FROM memory_scopes WHERE id {} (SELECT min(scope_id) FROM memories) FOR UPDATE"
    async with connected(database.address) as first:
        transaction = first.transaction()
        await transaction.start()
        await first.execute(lock.format("="))
        forgetting = asyncio.create_task(admin.value("SELECT parley_forget_all($1)", ann))
        await until_somebody_waits(first)
        # The other one may have any but the first of them.
        await first.execute(lock.format(">"))
        await transaction.commit()

    assert await forgetting == len(places)


async def test_empty_and_too_long_content_is_refused(memories: Memories, ann: int) -> None:
    memory = memories.of_user(ann, HOME, None)

    with pytest.raises(ToolError, match="empty"):
        await memory.remember(" \x00\n")
    with pytest.raises(ToolError, match="2,000"):
        await memory.remember("long " * 500)


async def test_at_capacity_new_texts_are_refused_and_existing_ones_returned(
    database: Database, tmp_path: Path, ann: int
) -> None:
    memories = Memories(database, Settings(parley_home=tmp_path), SystemClock(), capacity=2)
    memory = memories.of_user(ann, HOME, None)
    await tell(memory, "One", "Two")

    with pytest.raises(MemoryFull, match=r"2 memories .* forget"):
        await memory.remember("Three")
    assert (await memory.remember("two")).content == "Two"


async def test_nobody_sees_another_persons_memories(memories: Memories, database: Database, ann: int) -> None:
    bob = await add_user(database)
    mine = await memories.of_user(ann, HOME, None).remember("Ann's secret is the walrus")
    theirs = memories.of_user(bob, HOME, None)

    assert await contents(theirs, "walrus secret") == []
    assert await theirs.list_all() == []
    assert not await theirs.forget(mine.id)
    assert await contents(memories.of_user(ann, HOME, None), "walrus") == ["Ann's secret is the walrus"]


async def test_a_private_memory_is_visible_in_direct_messages_only(memories: Memories, ann: int) -> None:
    home, guild = memories.of_user(ann, HOME, None), memories.of_user(ann, GUILD, None)
    private = await home.remember("Ann looks for a new job")
    await guild.remember("Ann plays chess on Fridays")

    assert private.scope == "private"
    assert await contents(guild, "new job chess") == ["Ann plays chess on Fridays"]
    assert await contents(guild, "what about me") == ["Ann plays chess on Fridays"]
    assert [memory.content for memory in await guild.list_all()] == ["Ann plays chess on Fridays"]
    assert not await guild.forget(private.id)
    assert sorted(await contents(home, "new job chess")) == ["Ann looks for a new job", "Ann plays chess on Fridays"]


@pytest.mark.parametrize(
    "place",
    [
        OTHER_GUILD,
        Place("slack", "guild-1", "general"),
        Place("discord", None, "group-1"),
        Place("discord", None, "guild"),
    ],
)
async def test_a_memory_of_a_server_is_visible_on_that_server_only(memories: Memories, ann: int, place: Place) -> None:
    fact = await memories.of_user(ann, GUILD, None).remember("Ann plays chess")
    elsewhere = memories.of_user(ann, place, None)

    assert fact.scope == "server"
    assert await contents(elsewhere, "chess") == []
    assert await elsewhere.list_all() == []
    assert not await elsewhere.forget(fact.id)
    assert await contents(memories.of_user(ann, Place("discord", "guild-1", "another"), None), "chess")


async def test_a_group_without_a_server_has_its_own_memories(memories: Memories, ann: int) -> None:
    group = memories.of_user(ann, Place("slack", None, "group-1"), None)
    await group.remember("Ann plays chess")

    assert await contents(group, "chess") == ["Ann plays chess"]


async def test_forgetting_a_memory_deletes_its_words(memories: Memories, database: Database, ann: int) -> None:
    memory = memories.of_user(ann, HOME, None)
    walrus = await memory.remember("The walrus is grey")

    assert await memory.forget(walrus.id)
    assert not await memory.forget(walrus.id)
    assert not await memory.forget(10**30)
    assert not await memory.forget(-1)
    assert await contents(memory, "walrus") == []
    async with database.transaction() as session:
        await session.execute(text("SELECT set_config('parley.user_id', :id, true)"), {"id": str(ann)})
        assert (await session.execute(text("SELECT count(*) FROM memory_words"))).scalar_one() == 0


async def test_messages_of_a_conversation_are_found_by_the_words_of_their_neighbours(
    memories: Memories, database: Database, ann: int
) -> None:
    memory = memories.of_user(ann, GUILD, await new_conversation(database))
    lines = ["We went to Lisbon", "It rained all week", "The food was great", "Now back to work", "See you tomorrow"]
    records = [await memory.remember(line, "turn") for line in lines]
    await tell(memory, "Ann owns a parrot", "Ann reads novels", "Ann sings in a choir")

    assert set((await contents(memory, "rain in Lisbon"))[:2]) == {"It rained all week", "We went to Lisbon"}
    assert "The food was great" in await contents(memory, "when did it rain?")
    assert await memory.forget(records[1].id)
    assert await contents(memory, "when did it rain?") == []
    assert set((await contents(memory, "food Lisbon"))[:2]) == {"The food was great", "We went to Lisbon"}


async def test_memories_of_a_speaker_named_in_the_query_come_first(memories: Memories, ann: int) -> None:
    await memories.of_user(ann, GUILD, None, "Bob").remember("I like green tea")
    await memories.of_user(ann, GUILD, None, "Cara Lund").remember("I like tea in the morning, green or black")
    memory = memories.of_user(ann, GUILD, None)

    assert (await contents(memory, "Does Cara like green tea?"))[0].endswith("black")


async def test_recall_takes_one_statement(counted: CountedDatabase, ann: int, tmp_path: Path) -> None:
    memory = Memories(counted, Settings(parley_home=tmp_path), SystemClock()).of_user(ann, HOME, None)
    assert await memory.recall("what is my dog called") == []
    assert len(counted.statements) == 1
    await memory.remember("The dog is called Rex")
    counted.statements.clear()

    assert await memory.recall("what is my dog called")
    assert len(counted.statements) == 1


@pytest.mark.parametrize(
    ("columns", "values", "rule"),
    [
        ("platform, content", "'x', ' '", "content_is_not_empty"),
        ("platform, content, scope", "'x', 'y', 'public'", "scope_is_known"),
        ("platform, content, scope", "'x', 'y', 'server'", "server_scope_names_its_server"),
        ("platform, content", "'x', repeat('y', 2001)", "at_most_2000"),
    ],
)
async def test_constraints_refuse_invalid_memories(
    database: Database, ann: int, columns: str, values: str, rule: str
) -> None:
    async with database.transaction() as session:
        await session.execute(text("SELECT set_config('parley.user_id', :id, true)"), {"id": str(ann)})
        with pytest.raises(IntegrityError, match=rule):
            await session.execute(text(f"INSERT INTO memories (user_id, {columns}) VALUES ({ann}, {values})"))  # noqa: S608  # the test's own words
        await session.rollback()


PLENTY = """
INSERT INTO users (display_name) SELECT 'one of many' FROM generate_series(1, 20);
INSERT INTO memories (user_id, platform, content)
SELECT u.id, 'discord', 'memory ' || n FROM users AS u, generate_series(1, 2000) AS n
WHERE n <= 500 OR u.display_name IS NULL;
UPDATE memories SET is_indexed = true, ordinal = 2 * id, turn_length = 12;
UPDATE memory_scopes AS s SET memories = c.memories, words = 12 * c.memories
FROM (SELECT scope_id, count(*) AS memories FROM memories GROUP BY scope_id) AS c WHERE c.scope_id = s.id;
INSERT INTO memory_words (scope_id, term, ordinal, memory_id, tf, length, said_at)
SELECT m.scope_id, 'topic' || ((m.id * w * w) % (40 * w)), m.ordinal, m.id, 1, 12, m.said_at
FROM memories AS m, generate_series(1, 12) AS w
ON CONFLICT DO NOTHING;
ANALYZE memories, memory_words, memory_scopes
"""


SCANS = text("SELECT relname, seq_scan, idx_scan FROM pg_stat_xact_user_tables")


async def test_recall_among_thousands_of_memories_uses_the_index(
    memories: Memories, database: Database, owner: asyncpg.Connection, ann: int
) -> None:
    await owner.execute(PLENTY)
    async with database.transaction() as session:
        await find_by_words(session, Visibility(ann, HOME), Search(["topic7", "walrus"], 5))
        scans = {row.relname: row for row in await session.execute(SCANS)}

    assert scans["memory_words"].idx_scan > 0
    assert scans["memory_words"].seq_scan == scans["memories"].seq_scan == 0
    await memories.of_user(ann, HOME, None).remember("The walrus of topic7 sleeps")
    assert (await contents(memories.of_user(ann, HOME, None), "walrus topic7"))[0] == "The walrus of topic7 sleeps"
