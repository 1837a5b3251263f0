"""What several tests of memories need."""

from collections.abc import AsyncIterator

import pytest

from shared.db.database import Address, Database
from shared.models import User
from tests.support.admin import Admin


@pytest.fixture
async def admin(address: Address, database: Database) -> AsyncIterator[Admin]:
    async with Admin.connected(address) as admin:
        yield admin


@pytest.fixture
async def ann(database: Database) -> int:
    return await new_user(database)


async def new_user(database: Database) -> int:
    async with database.transaction() as session:
        user = User()
        session.add(user)
        await session.flush()
        return user.id
