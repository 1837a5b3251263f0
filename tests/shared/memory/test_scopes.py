"""Who may see which memories: the database decides it by a transaction's person and place, without our conditions."""

from datetime import UTC, datetime

import asyncpg
import pytest
from sqlalchemy import text

from agent.queue.maintenance.known_words import note_words
from shared.db.database import Database
from shared.memory.memories import Memories, NewMemory, Origin
from shared.memory.visibility import Visibility, act_in
from shared.messages import Place
from tests.shared.memory.test_memories import GUILD, HOME, OTHER_GUILD, contents
from tests.support.filing import add_user

NOW = datetime(2026, 11, 5, 12, tzinfo=UTC)
THREAD = Place("discord", "guild-1", "general", thread="thread-1")
OTHER_CHANNEL = Place("discord", "guild-1", "kitchen")
TABLES = ("memories", "memory_words", "memory_vectors")


async def conversation_in(database: Database, place: Place) -> int:
    async with database.transaction() as session:
        result = await session.execute(
            text(
                "INSERT INTO conversations (platform, platform_server_id, platform_channel_id, platform_thread_id,"
                " is_direct) VALUES (:platform, :server, :channel, :thread, :is_direct) RETURNING id"
            ),
            {name: getattr(place, name) for name in ("platform", "server", "channel", "thread", "is_direct")},
        )
        return int(result.scalar_one())


async def say(memories: Memories, database: Database, user_id: int, *, place: Place, words: str) -> None:
    origin = Origin(place, await conversation_in(database, place))
    await memories.add([NewMemory(user_id, origin, words, NOW, speaker=f"user {user_id}")])


async def visible(database: Database, user_id: int, place: Place) -> set[str]:
    """Return the texts that a query without any condition sees; words and vectors must be of these alone."""
    async with database.transaction() as session:
        await act_in(session, Visibility(user_id, place))
        assert (await session.execute(text("SELECT current_user"))).scalar_one() == "parley_app"
        contents = {row.id: row.content for row in await session.execute(text("SELECT id, content FROM memories"))}
        for table in TABLES[1:]:
            rows = await session.execute(text(f"SELECT DISTINCT memory_id FROM {table}"))  # noqa: S608  # a constant
            assert set(rows.scalars()) <= set(contents), table
        return set(contents.values())


@pytest.fixture
async def bob(database: Database) -> int:
    return await add_user(database)


@pytest.fixture
async def everything(memories: Memories, database: Database, owner: asyncpg.Connection, ann: int, bob: int) -> None:
    """Memories of each scope of two persons, each with a vector."""
    for user_id, name in ((ann, "ann"), (bob, "bob")):
        await memories.of_user(user_id, HOME, None).remember(f"{name} private")
        await memories.of_user(user_id, HOME, None).remember(f"{name} everywhere", everywhere=True)
        await memories.of_user(user_id, GUILD, None).remember(f"{name} guild")
        await memories.of_user(user_id, OTHER_GUILD, None).remember(f"{name} other guild")
    await say(memories, database, ann, place=GUILD, words="ann in general")
    await say(memories, database, bob, place=OTHER_CHANNEL, words="bob in the kitchen")
    await say(memories, database, bob, place=THREAD, words="bob in a thread")
    await owner.execute(
        "INSERT INTO memory_vectors (user_id, model, kind, memory_id, embedding)"
        " SELECT user_id, 'm', 'turn', id, '[1,0]' FROM memories"
    )


@pytest.mark.usefixtures("everything")
async def test_a_query_without_a_condition_sees_what_the_turn_may_see(database: Database, ann: int, bob: int) -> None:
    own = {"ann private", "ann everywhere", "ann guild", "ann other guild", "ann in general"}
    in_thread = {"ann everywhere", "ann guild", "ann in general", "bob in a thread"}

    assert await visible(database, ann, HOME) == own
    assert await visible(database, ann, GUILD) == {"ann everywhere", "ann guild", "ann in general"}
    assert await visible(database, bob, GUILD) == {"bob everywhere", "bob guild", "ann in general"}
    assert await visible(database, bob, OTHER_GUILD) == {"bob everywhere", "bob other guild"}
    assert await visible(database, ann, OTHER_CHANNEL) == {"ann everywhere", "ann guild", "bob in the kitchen"}
    assert await visible(database, ann, THREAD) == in_thread
    assert await visible(database, ann, Place("slack", "guild-1", "general")) == {"ann everywhere"}
    assert await visible(database, bob + 1, HOME) == set()


@pytest.mark.usefixtures("everything")
async def test_without_a_person_and_a_place_nothing_is_visible(database: Database) -> None:
    async with database.transaction() as session:
        for table in (*TABLES, "memory_scopes"):
            assert (await session.execute(text(f"SELECT count(*) FROM {table}"))).scalar_one() == 0  # noqa: S608  # a constant
        forged = await session.execute(text("UPDATE memories SET content = 'forged'"))
        assert forged.rowcount == 0  # type: ignore[attr-defined]  # the result of an UPDATE has a rowcount


async def test_a_thread_that_all_of_its_channel_read_belongs_to_the_channel(
    memories: Memories, database: Database, ann: int, bob: int
) -> None:
    await note_words(database, {"open_threads": ["forum"]})
    channel = Place("forum", "team", "general")
    thread = Place("forum", "team", "general", thread="17.1")
    await say(memories, database, bob, place=thread, words="the printer is broken")

    assert await visible(database, ann, channel) == {"the printer is broken"}
    assert await contents(memories.of_user(ann, channel, None), "printer") == ["the printer is broken"]


@pytest.mark.usefixtures("everything")
async def test_in_a_direct_message_a_person_forgets_what_they_said_in_a_channel(
    memories: Memories, database: Database, ann: int, bob: int
) -> None:
    async with database.transaction() as session:
        await act_in(session, Visibility(ann, HOME))
        result = await session.execute(text("SELECT id FROM memories WHERE content = 'ann in general'"))
        memory_id = result.scalar_one()

    assert not await memories.of_user(bob, GUILD, None).forget(memory_id)
    assert await memories.of_user(ann, HOME, None).forget(memory_id)
    assert await contents(memories.of_user(bob, GUILD, None), "general") == []


async def test_a_row_that_an_admin_inserts_is_indexed_and_recalled(
    memories: Memories, owner: asyncpg.Connection, ann: int
) -> None:
    await owner.execute("INSERT INTO memories (user_id, content) VALUES ($1, 'The walrus is grey')", ann)
    memory = memories.of_user(ann, HOME, None)

    assert await contents(memory, "walrus") == []
    assert await memories.index_missing() == 1
    assert await memories.index_missing() == 0
    assert await contents(memory, "walrus") == ["The walrus is grey"]

    await owner.execute("UPDATE memories SET content = 'The seal is grey'")
    assert await contents(memory, "walrus seal") == []
    assert await memories.index_missing() == 1
    assert await contents(memory, "walrus") == []
    assert await contents(memory, "seal") == ["The seal is grey"]

    await owner.execute("UPDATE memories SET scope = 'everywhere'")
    await memories.index_missing()
    assert await contents(memories.of_user(ann, GUILD, None), "seal") == ["The seal is grey"]
    await owner.execute("DELETE FROM memories")
    assert await owner.fetch("SELECT * FROM memory_scopes WHERE memories <> 0 OR words <> 0") == []
