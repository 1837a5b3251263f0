"""The move of a server from one cell to another, in steps that whoever moves it after a crash does again.

1. The target notes that the server arrives: its messages may be stored there, and wait.
2. The source notes that it leaves, under a lock: from now on it stores no new message of it, and doors store them in
   the target (`adapters/cells/routes.py`). So each message is in one cell, whatever a door remembers.
3. What is open in the source ends there: turns, replies. Scheduled jobs wait.
4. Rows are copied and deleted, in one transaction of each cell; the target commits first. The source reads and deletes
   in one snapshot, so that what somebody changed meanwhile is noticed, and both begin again. Whoever dies between the
   two commits leaves a target that has all rows, and a source that still has them but stores nothing and has nothing
   to do: they are deleted by the next one.

Until the target's commit the move can be cancelled, which is a move back: the target stores no new message, the source
does again, and the messages that wait go there as rows do.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg
from msgspec import Struct

from adapters.cells.addresses import check_cell
from shared.db.connections import LONG_STATEMENT_SECONDS
from shared.db.database import Address
from shared.db.driver import to_sql
from shared.db.statements import load_statements
from shared.errors import Unavailable

statements = load_statements(__file__)

# Between two looks at what is open.
LOOK_SECONDS = 0.25
# The states of a server whose rows have not come: to leave from there is to go back.
RETURNING = frozenset({"arriving", "returning"})
# How often rows are copied again because somebody changed one meanwhile.
MOST_TRIES = 10
# How much is stored at once: of a workspace of code, one row may have 32 MB; and how many rows are read ahead.
ROWS_AT_ONCE, CHARS_AT_ONCE, ROWS_AHEAD = 500, 8 * 1024 * 1024, 10

Say = Callable[[str], None]


class StillOpen(Unavailable):
    """In {source} there are still: {what}. They end there, as workers of {source} get to them; new messages wait in {target}. Run it again to go on."""  # noqa: E501  # one sentence for people


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell, with a connection as the owner of its tables."""

    name: str
    connection: asyncpg.Connection = field(repr=False)


class Move(Struct, frozen=True):
    """A server and the cells that it goes from and to."""

    platform: str
    server: str
    source: Cell
    target: Cell

    async def fetch(self, cell: Cell, statement: Any, *more: Any) -> list[Any]:
        """Run a statement about the server in a cell, and return its rows."""
        return list(await cell.connection.fetch(to_sql(statement), self.platform, self.server, *more))

    async def read_state(self, cell: Cell) -> tuple[str | None, str | None]:
        """Return what a cell notes of the server, and of which other cell; None: nothing."""
        rows = await self.fetch(cell, statements.read_state)
        return (rows[0]["state"], rows[0]["other_cell"]) if rows else (None, None)


@asynccontextmanager
async def connected(name: str, address: Address) -> AsyncIterator[Cell]:
    """Connect to a cell as the owner of its tables."""
    connection = await address.connect(as_owner=True, statement_seconds=LONG_STATEMENT_SECONDS)
    try:
        await check_cell(connection, name)
        await connection.execute(to_sql(statements.act_as_mover))
        yield Cell(name, connection)
    finally:
        await connection.close()


async def move_server(move: Move, say: Say, *, seconds: float) -> None:
    """Move the server; raises `StillOpen` when after so many seconds something of it is open."""
    source, target = move.source, move.target
    if (await move.read_state(source), (await move.read_state(target))[0]) == (("moved", target.name), "here"):
        say(f"{move.platform} {move.server} lives in {target.name} already.")
        return
    returns = (await move.read_state(source))[0] in RETURNING
    if returns:
        # Before its home stores new ones: those that wait here are older.
        await _until_unlocked(move)
    if (await move.read_state(target))[0] != "here":
        await move.fetch(target, statements.begin_arrival, source.name)
    if not returns:
        await _until_unlocked(move)
    say(f"New messages go to {target.name}, and wait there.")
    await _wait_until_settled(move, seconds)
    say(f"Nothing of it is open in {source.name} any more.")
    for number in range(MOST_TRIES):
        try:
            count, left_out = await _carry(move, returns=returns)
        except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError) as error:
            say(f"Somebody changed what is moved ({error}); once more.")
            if number == MOST_TRIES - 1:
                raise
            continue
        break
    for table, rows in left_out.items():
        say(f"{rows} rows of {table} were left out: {target.name} had them, or what they belong to stays.")
    say(f"{move.platform} {move.server} lives in {target.name} now: {count} rows.")


async def _until_unlocked(move: Move) -> None:
    for number in range(MOST_TRIES):
        try:
            await move.fetch(move.source, statements.begin_departure, move.target.name)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            if number == MOST_TRIES - 1:
                raise
            await asyncio.sleep(LOOK_SECONDS)
        else:
            return


async def _wait_until_settled(move: Move, seconds: float) -> None:
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    while rows := await move.fetch(move.source, statements.settle):
        if clock() > until:
            raise StillOpen(source=move.source.name, target=move.target.name, what=describe_open(rows))
        await asyncio.sleep(LOOK_SECONDS)


def describe_open(rows: Sequence[Any]) -> str:
    """Return what is open, as people read it."""
    return ", ".join(f"{row['rows']} {row['name']}" for row in rows)


async def _carry(move: Move, *, returns: bool) -> tuple[int, dict[str, int]]:
    """Copy and delete the rows; return how many there are, and how many of which tables were left out."""
    source, target = move.source.connection, move.target.connection
    count, left_out = 0, dict[str, int]()
    async with source.transaction(isolation="repeatable_read"):
        if rows := await move.fetch(move.source, statements.settle):
            raise StillOpen(source=move.source.name, target=move.target.name, what=describe_open(rows))
        async with target.transaction():
            arrives = (await move.fetch(move.target, statements.lock_state))[0]["state"] == "arriving"
            if arrives:
                count, left_out = await _copy(move, returns=returns)
            await move.fetch(move.source, statements.remove_server)
            await move.fetch(move.source, statements.end_departure)
            if arrives:
                # Last, because others wait for its lock.
                await move.fetch(move.target, statements.end_arrival)
    return count, left_out


async def _copy(move: Move, *, returns: bool) -> tuple[int, dict[str, int]]:
    source, target = move.source.connection, move.target.connection
    # What is new in the target comes after what moves: nothing of the server gets an id in the source any more.
    await target.execute(to_sql(statements.pass_ids), await source.fetchval(to_sql(statements.read_last_ids)))
    (people,) = (await move.fetch(move.source, statements.give_people))[0]
    (persona_names,) = (await move.fetch(move.source, statements.give_personas))[0]
    person_ids = await target.fetchval(to_sql(statements.take_people), move.platform, people)
    persona_ids = await target.fetchval(to_sql(statements.take_personas), persona_names)
    await target.execute(to_sql(statements.make_room_for_rows))
    if not returns:
        await move.fetch(move.target, statements.remove_empty_server)
    count, left_out = 0, dict[str, int]()
    for row in await source.fetch(to_sql(statements.list_moving_tables)):
        table, row_count, chars = row["name"], 0, 0
        rows: list[tuple[str]] = []
        arguments = (table, move.platform, move.server)
        async for (data,) in source.cursor(to_sql(statements.give_rows), *arguments, prefetch=ROWS_AHEAD):
            rows.append((data,))
            chars += len(data)
            if len(rows) == ROWS_AT_ONCE or chars > CHARS_AT_ONCE:
                row_count, chars = row_count + await _stage(target, rows), 0
        row_count += await _stage(target, rows)
        copies = await target.fetchval(to_sql(statements.take_rows), table, person_ids, persona_ids) if row_count else 0
        count += copies
        if copies < row_count:
            left_out[table] = row_count - copies
    return count, left_out


async def _stage(target: asyncpg.Connection, rows: list[tuple[str]]) -> int:
    count = len(rows)
    if rows:
        await target.copy_records_to_table("moving_rows", records=rows)
        rows.clear()
    return count
