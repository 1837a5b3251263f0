"""Ten worker processes behind PgBouncer, some of which are killed: each message is answered once and in order."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from shared.db.database import Address
from shared.db.pooling.room import WORKER_CONNECTIONS
from shared.settings import Settings
from tests.adapters.cli.shell import PARLEY
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body
from tests.support.chat_scene import child_environment
from tests.support.connections import connected
from tests.support.given_database import GivenTables
from tests.support.parley import open_parley
from tests.support.pgbouncer import pooled, shared
from tests.support.processes import list_children

PLACES, MESSAGES = 8, 5
# A worker's connections at the server, where each has a session there.
MOST_OF_A_PROCESS = """
SELECT max(count) FROM (
    SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND application_name LIKE 'parley, process %'
    GROUP BY application_name
) AS connections
"""
HEARD = """
SELECT m.content
FROM messages AS m JOIN turns AS t ON t.id = m.turn_id JOIN conversations AS c ON c.id = t.conversation_id
WHERE m.role = 'user' ORDER BY c.platform_channel_id, t.id, m.seq
"""
ENDS = """
SELECT (SELECT count(*) FROM turns), (SELECT count(*) FROM inbox WHERE status = 'answered'),
       (SELECT count(*) FROM turn_events WHERE name = 'turn_complete')
"""


class Witness:
    """A model that repeats what it was told; it notes when it has been asked once in each place, and waits then."""

    def __init__(self) -> None:
        self.is_busy, self.may_answer = asyncio.Event(), asyncio.Event()

    async def answer(self, body: Body, number: int) -> Answer:
        if number >= PLACES:
            self.is_busy.set()
        await self.may_answer.wait()
        return Answer(f"You said: {body['messages'][-1]['content']}")


@pytest.mark.parametrize(("mode", "workers"), [("transaction", 10), ("session", 5)])
async def test_workers_answer_each_message_once_and_in_order_though_some_are_killed(
    given: GivenTables, settings: Settings, model: OpenAIStub, tmp_path: Path, mode: str, workers: int
) -> None:
    witness = Witness()
    model.play(witness.answer)
    async with (
        given.one() as upstream,
        behind_a_pooler(upstream, mode) as address,
        open_parley(settings, address, model, works=False) as parley,
        working(settings, address, tmp_path, workers) as pid,
    ):
        # Of two people in turn, so that each message is a turn of its own.
        accepted = [
            await parley.accept(
                f"{number} in {place}", user=f"person {number % 2}", server="s", channel=f"room {place}"
            )
            for number in range(MESSAGES)
            for place in range(PLACES)
        ]
        await witness.is_busy.wait()
        for worker in list_children(pid)[-2 * workers // 5 :]:
            os.kill(worker, signal.SIGKILL)
        witness.may_answer.set()
        responses = await asyncio.gather(*(parley.app.events.response(message.inbox_id) for message in accepted))
        async with connected(upstream) as owner:
            most = await owner.fetchval(MOST_OF_A_PROCESS, upstream.url.database)
            heard = [row["content"] for row in await owner.fetch(HEARD)]
            ends = await owner.fetchrow(ENDS)
    texts = [f"{number} in {place}" for number in range(MESSAGES) for place in range(PLACES)]
    assert all(text in response.content for text, response in zip(texts, responses, strict=True))
    assert heard == [f"{number} in {place}" for place in range(PLACES) for number in range(MESSAGES)]
    assert tuple(ends) == (PLACES * MESSAGES,) * 3
    assert 0 < most <= WORKER_CONNECTIONS


@asynccontextmanager
async def behind_a_pooler(upstream: Address, mode: str) -> AsyncIterator[Address]:
    """Run PgBouncer before a database."""
    if mode == "session":
        async with pooled(upstream, mode, default_pool_size=90) as address:
            yield address
        return
    # Three sessions at the server for the statements of eleven processes.
    async with shared(upstream, mode, default_pool_size=3) as address:
        yield address


@asynccontextmanager
async def working(settings: Settings, address: Address, home: Path, workers: int) -> AsyncIterator[int]:
    """Start `parley worker` with so many processes on this database; yields the id of the one that watches them."""
    environment = child_environment(settings, address, home) | {"WORKERS": str(workers)}
    if address.pooler is not None:
        environment |= {
            "DATABASE_URL": replace(address, url=address.pooler).libpq(as_owner=True),
            "DATABASE_DIRECT_URL": address.libpq(as_owner=True),
        }
    process = await asyncio.create_subprocess_exec(
        PARLEY, "worker", env={"PATH": os.environ["PATH"], **environment}, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert b"is ready" in await process.stdout.readline()
        yield process.pid
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
