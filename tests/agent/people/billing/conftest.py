"""A database with people who pay."""

from collections.abc import AsyncIterator

import pytest

from shared.db.database import Address
from tests.support.connections import connected
from tests.support.money import SETUP, Money


@pytest.fixture
async def money(address: Address) -> AsyncIterator[Money]:
    """A database with one person, one server, and two turns of the person: one on the server, one on the web."""
    async with connected(address, as_owner=False) as connection:
        await connection.execute(SETUP)
        await connection.execute("SET search_path = ''")
        yield Money(connection)
