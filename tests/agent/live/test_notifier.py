"""Notes by NOTIFY: they wait for nothing that turns need."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack

from agent.live.channels import TURNS
from shared.db.pooling.room import POOL_SIZE
from tests.support.connections import connected
from tests.support.eventually import PATIENCE
from tests.support.parley import Parley


async def test_a_note_waits_for_no_connection_that_turns_have(parley: Parley) -> None:
    database, heard = parley.app.database, asyncio.Event()
    async with connected(database.address) as other, AsyncExitStack() as stack:
        await other.add_listener(TURNS, lambda *_: heard.set())
        for _ in range(POOL_SIZE):
            await stack.enter_async_context(database.transaction())

        parley.app.events.notifier.send(TURNS, '{"inbox": [1], "end": true}')

        async with asyncio.timeout(PATIENCE):
            await heard.wait()


async def test_notes_go_by_the_pool_while_the_session_that_listens_is_silent(parley: Parley) -> None:
    database, session = parley.app.database, parley.app.events.session
    silent, heard = session.connection, asyncio.Event()
    assert silent is not None
    pid = silent.get_server_pid()
    async with connected(database.address) as other:
        await other.add_listener(TURNS, lambda *_: heard.set())
        os.kill(pid, signal.SIGSTOP)
        try:
            parley.app.events.notifier.send(TURNS, '{"inbox": [1], "end": true}')
            async with asyncio.timeout(30):
                await heard.wait()
        finally:
            os.kill(pid, signal.SIGCONT)

    # It is not known yet that it is lost.
    assert session.connection is silent
