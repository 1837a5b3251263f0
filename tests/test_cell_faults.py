"""What may go wrong around a move: two who move, databases that forget, a silent cell, people of two cells."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from subprocess import PIPE

import asyncpg
import pytest

from adapters.cells.checks import DepartureForgotten, MovedBySomebody, check_move, find_home
from adapters.cells.moves import Move, StillOpen, connected, move_server
from adapters.tables import update_tables
from shared.db.database import Address
from shared.db.hosts import URL
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.cells import NAMES, SERVER, door_settings, numbered_databases, open_cells
from tests.support.connections import connected as connected_as
from tests.support.forks import get_command
from tests.support.source_tree import ROOT

READS_THAT_WAIT = """
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FROM cell_servers%'
"""
CONVERSATION = """
INSERT INTO conversations (platform, platform_server_id, platform_channel_id, user_id, persona_id)
VALUES ('test', 'guild', $1, $2, $3) RETURNING id
"""


@pytest.fixture
async def addresses(postgres: URL) -> AsyncIterator[dict[str, Address]]:
    async with numbered_databases(postgres) as addresses:
        yield addresses


@pytest.fixture
async def move(addresses: dict[str, Address]) -> AsyncIterator[Move]:
    """Open a move of the server from a to b, where no process runs."""
    async with AsyncExitStack() as closing:
        source, target = [await closing.enter_async_context(connected(name, addresses[name])) for name in NAMES]
        yield Move("test", SERVER, source=source, target=target)


async def make_person(connection: asyncpg.Connection, *accounts: str, level: str = "guest") -> int:
    person: int = await connection.fetchval("INSERT INTO users (permission_level) VALUES ($1) RETURNING id", level)
    for account in accounts:
        await connection.fetchval("SELECT parley_link_account($1, 'test', $2)", person, account)
    return person


async def test_of_two_who_move_a_server_to_different_cells_the_second_is_refused(
    addresses: dict[str, Address],
) -> None:
    async with AsyncExitStack() as closing:
        first, second = [
            {name: await closing.enter_async_context(connected(name, addresses[name])) for name in NAMES}
            for _ in range(2)
        ]
        assert await find_home("test", SERVER, to="b", cells=first) == "a"
        with pytest.raises(MovedBySomebody, match="wait for the end"):
            await find_home("test", SERVER, to="b", cells=second)
        assert await find_home("test", "other", to="b", cells=second) == "a"


async def test_a_move_gives_nobody_the_rights_of_another_account_and_ends_no_pause(move: Move) -> None:
    source, target = move.source.connection, move.target.connection
    # In the cell that the server leaves, Mallory's account belongs to the same person as the owner's.
    person = await make_person(source, "boss", "mallory")
    quiet = await make_person(source, "quiet")
    await source.execute("UPDATE users SET is_memory_paused = true, paused_at = now() WHERE id = $1", quiet)
    for channel, user in (("one", person), ("two", quiet)):
        await source.fetchval(CONVERSATION, channel, user, None)
    boss = await make_person(target, "boss", level="admin")
    await make_person(target, "quiet")

    await move_server(move, lambda _line: None, seconds=0)

    accounts = await target.fetch("SELECT platform_user_id FROM user_platform_links WHERE user_id = $1", boss)
    assert [row["platform_user_id"] for row in accounts] == ["boss"]
    pauses = "SELECT platform_user_id FROM users JOIN user_platform_links ON user_id = users.id WHERE {}"
    for pause in ("is_memory_paused", "paused_at IS NOT NULL"):
        assert [row[0] for row in await target.fetch(pauses.format(pause))] == ["quiet"]


async def test_a_server_gets_no_persona_of_another_one_and_its_own_comes_with_modules_that_are_unknown_there(
    move: Move,
) -> None:
    source, target = move.source.connection, move.target.connection
    persona = "INSERT INTO personas (name, system_prompt, platform, platform_server_id, allowed_modules)"
    await source.execute(f"{persona} VALUES ('Clerk', 'You help.', NULL, NULL, NULL)")
    await source.execute(f"{persona} VALUES ('Guide', 'You guide.', 'test', 'guild', '[\"shop\"]')")
    await source.execute(
        CONVERSATION, "one", None, await source.fetchval("SELECT id FROM personas WHERE name = 'Clerk'")
    )
    await target.execute(f"{persona} VALUES ('Clerk', 'The code of our safe is 4711.', 'test', 'other', NULL)")
    await target.execute("INSERT INTO known_words (kind, word) VALUES ('module', 'time')")

    await move_server(move, lambda _line: None, seconds=0)

    assert [row["persona_id"] for row in await target.fetch("SELECT persona_id FROM conversations")] == [None]
    assert await target.fetchval("SELECT allowed_modules FROM personas WHERE name = 'Guide'") == '["shop"]'


async def test_of_two_who_are_one_person_in_the_other_cell_no_word_comes_without_its_memory(move: Move) -> None:
    source, target = move.source.connection, move.target.connection
    people = [await make_person(source, account) for account in ("ann", "ann-at-work")]
    await make_person(target, "ann", "ann-at-work")
    for person in people:
        memory = {"n": 1, "user_id": person, "scope": "server", "platform": "test", "server": "guild", "channel": "one"}
        text = {"content": "Likes tea", "content_key": "tea", "source": "fact", "length": 1, "words": {"tea": 1}}
        await source.execute("SELECT parley_add_memories($1, 10)", json.dumps([memory | text]))

    await move_server(move, lambda _line: None, seconds=0)

    assert await target.fetchval("SELECT count(*) FROM memories") == 1
    assert await target.fetchval("SELECT array_agg(memory_id) FROM memory_words") == [
        await target.fetchval("SELECT id FROM memories")
    ]


async def test_a_server_waits_for_the_erasure_of_people(move: Move) -> None:
    source = move.source.connection
    person = await make_person(source, "ann")
    await source.fetchval(CONVERSATION, "one", person, None)
    await source.fetchval("SELECT parley_request_erasure($1)", person)

    with pytest.raises(StillOpen, match="1 erasures of people"):
        await move_server(move, lambda _line: None, seconds=0)
    await source.execute("SELECT parley_erase_person(id) FROM erasures")
    await move_server(move, lambda _line: None, seconds=0)
    assert await move.target.connection.fetchval("SELECT count(*) FROM users") == 0


async def test_what_was_said_in_a_cell_that_forgot_a_move_is_not_deleted_unasked(move: Move) -> None:
    source = move.source.connection
    await source.fetchval(CONVERSATION, "one", None, None)
    await move_server(move, lambda _line: None, seconds=0)
    # The source was failed over, or restored, to what it was before.
    await source.execute("DELETE FROM cell_servers")
    await source.fetchval(CONVERSATION, "since", None, None)

    with pytest.raises(DepartureForgotten) as refused:
        await check_move(move, ())
    assert await source.fetchval("SELECT count(*) FROM conversations") == 1
    remedy = str(refused.value).partition("psql: ")[2].partition(";")[0]
    await source.execute(remedy)
    await check_move(move, ())
    await move_server(move, lambda _line: None, seconds=0)
    assert await source.fetchval("SELECT count(*) FROM conversations") == 0


async def test_a_move_whose_end_the_target_has_lost_is_ended_again(move: Move) -> None:
    target = move.target.connection
    await move_server(move, lambda _line: None, seconds=0)
    await target.execute("UPDATE cell_servers SET state = 'arriving'")
    lost = {"a": move.source, "b": move.target}
    assert await find_home("test", SERVER, to="b", cells=lost) == "a"

    await move_server(move, lambda _line: None, seconds=0)

    assert await move.read_state(move.target) == ("here", "a")
    assert await move.read_state(move.source) == ("moved", "b")


async def test_ids_leap_in_a_cell_by_as_many_steps_as_elsewhere(addresses: dict[str, Address]) -> None:
    async with connected_as(addresses["b"]) as owner:
        before = await owner.fetchval("SELECT last_value FROM messages_id_seq")
        await owner.execute("UPDATE database_histories SET timeline = timeline - 1")
    async with connected_as(addresses["b"]) as owner:
        after = await owner.fetchval("SELECT last_value FROM messages_id_seq")
        assert after - before >= 16 * 1_000_000
        assert after % 16 == 1


async def test_a_table_that_comes_with_an_update_has_ids_of_its_cell(
    addresses: dict[str, Address], tmp_path: Path
) -> None:
    schema = tmp_path / "diary" / "schema"
    schema.mkdir(parents=True)
    (schema.parent / "__init__.py").touch()
    (schema / "0001_tables.sql").write_text(
        "CREATE TABLE diary (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY);"
        "COMMENT ON TABLE diary IS 'Days.'; COMMENT ON COLUMN diary.id IS 'Number.';"
    )
    await update_tables(addresses["b"], tmp_path)
    async with connected_as(addresses["b"]) as owner:
        ids = [await owner.fetchval("INSERT INTO diary DEFAULT VALUES RETURNING id") for _ in range(2)]
        assert [id_ % 16 for id_ in ids] == [1, 1]


async def test_a_cell_that_was_restored_gives_no_id_again_that_has_moved(
    addresses: dict[str, Address], tmp_path: Path
) -> None:
    async with connected_as(addresses["a"]) as owner:
        before = await owner.fetchval("SELECT last_value FROM messages_id_seq")
    async with connected_as(addresses["b"]) as owner:
        # It has passed what it got from a, which was restored since.
        passed = await owner.fetchval("SELECT setval('messages_id_seq', last_value + 160000000) FROM messages_id_seq")
    urls = ",".join(f"{name}={address.libpq(as_owner=True)}" for name, address in addresses.items())
    preparing = await asyncio.create_subprocess_exec(
        *get_command(),
        *("server", "prepare"),
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PARLEY_HOME": str(tmp_path), "CELLS": urls},
        stdout=PIPE,
        stderr=PIPE,
    )
    out, err = await preparing.communicate()
    assert "b is ready, as cell 1" in out.decode(), err.decode()
    async with connected_as(addresses["a"]) as owner:
        after = await owner.fetchval("SELECT nextval('messages_id_seq')")
        assert after > passed > before
        assert after % 16 == 0


async def test_a_cell_that_says_nothing_keeps_nobody_else_waiting(
    settings: Settings, postgres: URL, model: OpenAIStub
) -> None:
    async with (
        open_cells(door_settings(settings), postgres, model) as cells,
        connected_as(cells.addresses["b"]) as holder,
        connected_as(cells.addresses["b"]) as watcher,
    ):
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute("LOCK TABLE alembic_version, cell_servers")
        try:
            command = asyncio.create_task(cells.post("command", "/budget"))
            ready = await cells.client.get("/readyz")
            assert (ready.status_code, ready.json()["cells"]["b"]["message"]) == (
                200,
                "The database can't be reached.",
            )
            assert ready.json()["cells"]["a"] == {"workers": 1}
            assert "tokens" in (await command).json()["content"]
            # Nobody asked the other cell for its servers.
            assert await watcher.fetchval(READS_THAT_WAIT) == 0
        finally:
            await transaction.rollback()
