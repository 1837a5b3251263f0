"""Notes by NOTIFY: they wait for nothing that turns need."""

import asyncio
from contextlib import AsyncExitStack

from agent.live.channels import TURNS
from shared.db.pooling.room import POOL_SIZE
from tests.support.connections import connected
from tests.support.parley import Parley


async def test_a_note_waits_for_no_connection_that_turns_have(parley: Parley) -> None:
    database, heard = parley.app.database, asyncio.Event()
    async with connected(database.address) as other, AsyncExitStack() as stack:
        await other.add_listener(TURNS, lambda *_: heard.set())
        for _ in range(POOL_SIZE):
            await stack.enter_async_context(database.transaction())

        parley.app.events.notifier.send(TURNS, '{"inbox": [1], "end": true}')

        async with asyncio.timeout(10):
            await heard.wait()
