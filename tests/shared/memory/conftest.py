"""What several tests of memories need."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from shared.clock import SystemClock
from shared.db.database import Address, Database
from shared.memory.memories import Memories
from shared.settings import Settings
from tests.support.counted_database import CountedDatabase
from tests.support.filing import add_user
from tests.support.psql import Psql


class Admin(Psql):
    """Runs SQL as the database's owner."""

    async def overdue(self) -> None:
        await self.run("UPDATE memories SET vectors_due_at = now()")


@pytest.fixture
def address(new_address: Address) -> Address:
    """A database whose statistics tell of one test alone."""
    return new_address


@pytest.fixture
def admin(owner: asyncpg.Connection) -> Admin:
    return Admin(owner)


@pytest.fixture
def memories(database: Database, tmp_path: Path) -> Memories:
    return Memories(database, Settings(parley_home=tmp_path), SystemClock())


@pytest.fixture
async def counted(address: Address) -> AsyncIterator[CountedDatabase]:
    database = CountedDatabase(address)
    yield database
    await database.close()


@pytest.fixture
async def ann(database: Database) -> int:
    return await add_user(database)
