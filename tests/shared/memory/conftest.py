"""What several tests of memories need."""

import asyncpg
import pytest

from shared.db.database import Database
from tests.support.filing import add_user
from tests.support.psql import Psql


class Admin(Psql):
    """Runs SQL as the database's owner."""

    async def overdue(self) -> None:
        await self.run("UPDATE memories SET vectors_due_at = now()")


@pytest.fixture
def admin(owner: asyncpg.Connection) -> Admin:
    return Admin(owner)


@pytest.fixture
async def ann(database: Database) -> int:
    return await add_user(database)
