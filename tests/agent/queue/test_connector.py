"""The queue's connections."""

import asyncio
import socket

import procrastinate
from sqlalchemy import make_url

from agent.queue.connector import RetryingConnector, build_queue, opened
from shared.db.database import Address, Database
from tests.support.parley import Parley


async def test_who_is_cancelled_just_when_the_connections_are_open_ends(parley: Parley) -> None:
    for turns_of_the_loop in range(8):
        queue = build_queue(parley.app.database)
        working = asyncio.create_task(_hold_open(queue))
        while not _count(queue, "pool_available"):  # noqa: ASYNC110  # each turn of the loop counts
            await asyncio.sleep(0)
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        working.cancel()

        assert [type(outcome) for outcome in await asyncio.gather(working, return_exceptions=True)] == [
            asyncio.CancelledError
        ]


async def test_a_database_that_is_away_for_long_is_tried_as_often_as_at_first() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    queue = build_queue(Database(Address(make_url(f"postgresql://u:p@127.0.0.1:{port}/x"), is_embedded=False)))
    working = asyncio.create_task(_hold_open(queue))
    # With waits that double, the sixth would come after half a minute.
    async with asyncio.timeout(25):
        while _count(queue, "connections_errors") < 6:  # noqa: ASYNC110  # the pool tells nobody
            await asyncio.sleep(0.05)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def _hold_open(queue: procrastinate.App) -> None:
    async with opened(queue):
        await asyncio.Event().wait()


def _count(queue: procrastinate.App, kind: str) -> int:
    assert isinstance(queue.connector, RetryingConnector)
    try:
        return queue.connector.pool.get_stats().get(kind, 0)
    except procrastinate.exceptions.AppNotOpen:
        return 0
