"""What modules say about their tables may be wrong: a server is not sent on its way, and who moves it is told why."""

import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import asyncpg
import pytest

from adapters.cells.checks import check_move
from adapters.cells.moves import Move, connected, move_server
from shared.db.errors import refusals
from shared.errors import ParleyError
from tests.support.cells import NAMES, SERVER, CellDatabases, numbered_databases

NOTES = "CREATE TABLE notes (id bigint PRIMARY KEY, conversation_id bigint REFERENCES conversations);"
# As one person may have in as many channels, of 1 MB each, which is 2 MB as JSON.
WORKSPACES = """
WITH places AS (
    INSERT INTO conversations (platform, platform_server_id, platform_channel_id, user_id)
    SELECT 'test', 'guild', number, $1 FROM generate_series(1, 20) AS number RETURNING id
)
INSERT INTO code_workspaces (user_id, conversation_id, state)
SELECT $1, id, decode(repeat('00', 1000000), 'hex') FROM places
"""
NAMED = "INSERT INTO folder_tables (name, condition) VALUES "
WRONG = {
    "no condition": (f"{NOTES} {NAMED} ('notes', 'id IN (SELECT')", "condition of notes in folder_tables"),
    "another column": (f"{NOTES} {NAMED} ('notes', 'place = $1')", "condition of notes in folder_tables"),
    "a table of Parley": (f"{NAMED} ('users', 'true')", "users is named twice"),
    "rows that stay": (NOTES, "notes refers to conversations"),
}


@pytest.fixture
async def move(cell_databases: CellDatabases) -> AsyncIterator[Move]:
    """Open a move of the server from a to b, where no process runs."""
    async with AsyncExitStack() as closing:
        addresses = await closing.enter_async_context(numbered_databases(cell_databases))
        source, target = [await closing.enter_async_context(connected(name, addresses[name])) for name in NAMES]
        yield Move("test", SERVER, source=source, target=target)


async def run_in_both(move: Move, statements: str) -> list[asyncpg.Connection]:
    connections = [cell.connection for cell in (move.source, move.target)]
    for connection in connections:
        await connection.execute(statements)
    return connections


@pytest.mark.parametrize("case", WRONG)
async def test_a_server_stays_where_it_is_while_a_module_says_nothing_true_of_its_table(move: Move, case: str) -> None:
    statements, reason = WRONG[case]
    await run_in_both(move, statements)

    with pytest.raises(ParleyError, match=reason), refusals():
        await check_move(move, [])

    assert await move.read_state(move.source) == await move.read_state(move.target) == (None, None)


async def test_rows_that_refer_to_each_other_by_a_name_move_together(move: Move) -> None:
    books = "CREATE TABLE books (name text PRIMARY KEY); CREATE TABLE pages (id bigint PRIMARY KEY, "
    named = f"book text REFERENCES books ON DELETE CASCADE); {NAMED} ('books', 'true'), ('pages', 'true')"
    source, target = await run_in_both(move, books + named)
    await source.execute("INSERT INTO books VALUES ('1'), ('red'); INSERT INTO pages VALUES (1, '1'), (2, 'red')")

    await move_server(move, lambda _line: None, seconds=0)

    assert [tuple(row) for row in await target.fetch("SELECT * FROM pages ORDER BY id")] == [(1, "1"), (2, "red")]
    assert await source.fetch("SELECT FROM books") == []


async def test_a_server_whose_members_keep_much_is_moved_in_little_memory(move: Move) -> None:
    user_id = await move.source.connection.fetchval("INSERT INTO users DEFAULT VALUES RETURNING id")
    await move.source.connection.execute(WORKSPACES, user_id)

    tracemalloc.start()
    try:
        await move_server(move, lambda _line: None, seconds=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert await move.target.connection.fetchval("SELECT count(*) FROM code_workspaces") == 20
    assert peak < 35_000_000
