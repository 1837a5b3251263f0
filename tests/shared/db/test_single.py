"""The database of a short command: one connection, opened again when it is lost."""

import asyncio

import asyncpg
import pytest

from shared.db.connections import STATEMENT_SECONDS
from shared.db.database import Address, DatabaseLost
from shared.db.single import SmallDatabase
from shared.db.statements import Statement

LOOK = Statement("""SELECT pg_backend_pid() AS pid, current_user AS role, CAST('{"a": [1]}' AS jsonb) AS value""")


async def look(database: SmallDatabase) -> tuple[int, str, object]:
    async with database.statement() as session:
        row = (await session.execute(LOOK)).one()
    return row.pid, row.role, row.value


async def lose(database: SmallDatabase, owner: asyncpg.Connection, pid: int) -> None:
    """Have the server end the connection within a transaction."""
    async with database.transaction() as session:
        await owner.execute("SELECT pg_terminate_backend($1, 5000)", pid)
        await session.execute(LOOK)


async def make_and_fail(database: SmallDatabase) -> None:
    """Make a person in a transaction that fails."""
    async with database.transaction() as session:
        await session.execute(Statement("SELECT parley_make_user('test', 'nobody', NULL)"))
        raise ZeroDivisionError


async def test_one_connection_serves_all_statements_and_a_lost_one_is_opened_again(
    address: Address, owner: asyncpg.Connection
) -> None:
    database = SmallDatabase(address)

    rows = await asyncio.gather(*(look(database) for _ in range(3)))
    assert [row[1:] for row in rows] == [("parley_app", {"a": [1]})] * 3
    assert len({row[0] for row in rows}) == 1
    with pytest.raises(DatabaseLost):
        await lose(database, owner, rows[0][0])
    assert (await look(database))[0] != rows[0][0]
    await database.close()


class Impatient(SmallDatabase):
    """One whose first caller leaves as soon as the connection stands, before it is ready."""

    has_left = False

    async def connect(self, *, statement_seconds: float = STATEMENT_SECONDS) -> asyncpg.Connection:
        connection, task = await super().connect(statement_seconds=statement_seconds), asyncio.current_task()
        if task is not None and not self.has_left:
            self.has_left = task.cancel()
        return connection


async def test_a_connection_that_was_left_half_made_is_not_used(address: Address) -> None:
    database = Impatient(address)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(look(database))
    assert (await look(database))[2] == {"a": [1]}
    await database.close()


async def test_a_transaction_that_fails_is_rolled_back(address: Address) -> None:
    database = SmallDatabase(address)

    with pytest.raises(ZeroDivisionError):
        await make_and_fail(database)
    async with database.statement() as session:
        found = Statement("SELECT count(*) FROM user_platform_links WHERE platform_user_id = 'nobody'")
        assert (await session.execute(found)).scalar_one() == 0
    await database.close()


async def test_a_transaction_that_is_cancelled_within_a_statement_ends_as_cancelled(address: Address) -> None:
    database = SmallDatabase(address)
    await look(database)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2), database.transaction() as session:
            await session.execute(Statement("SELECT pg_sleep(60)"))
    await database.close()


async def test_what_follows_a_transaction_that_was_cancelled_as_it_began_is_committed(
    address: Address, owner: asyncpg.Connection
) -> None:
    database = SmallDatabase(address)
    await look(database)
    beginning = asyncio.create_task(make_and_fail(database))
    # It runs up to where it waits for the server.
    await asyncio.sleep(0)
    beginning.cancel()
    await asyncio.wait({beginning})

    async with database.statement() as session:
        await session.execute(Statement("SELECT parley_make_user('test', 'ann', NULL)"))
    await database.close()

    made = "SELECT array_agg(platform_user_id) FROM user_platform_links WHERE platform = 'test'"
    assert await owner.fetchval(made) == ["ann"]
