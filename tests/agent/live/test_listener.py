"""The connection that hears notes."""

import asyncio

import asyncpg
import pytest

from agent.live.listener import Listener
from shared.db.database import Address, Database
from tests.support.connections import connected
from tests.support.eventually import eventually

IS_ALONE = "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


class Impatient(Database):
    """One whose caller leaves as a new connection is looked at."""

    async def look(self, listening: asyncpg.Connection) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await super().look(listening)


async def test_a_connection_that_is_given_up_before_it_hears_is_closed(new_address: Address) -> None:
    events = Listener(Impatient(new_address), ["a key"])
    # It holds on to whatever was not closed.
    with pytest.raises(asyncio.CancelledError) as given_up:
        await asyncio.create_task(events.start())

    async with connected(new_address) as owner:
        await eventually(lambda: owner.fetchval(IS_ALONE))
    assert given_up.type is asyncio.CancelledError
