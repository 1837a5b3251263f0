"""The queue's connections."""

import asyncio

import procrastinate

from agent.queue.connector import RetryingConnector, build_queue, opened
from tests.support.parley import Parley


async def test_who_is_cancelled_just_when_the_connections_are_open_ends(parley: Parley) -> None:
    for turns_of_the_loop in range(8):
        queue = build_queue(parley.app.database)
        working = asyncio.create_task(_hold_open(queue))
        while not _count_connections(queue):  # noqa: ASYNC110  # each turn of the loop counts
            await asyncio.sleep(0)
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        working.cancel()

        assert [type(each) for each in await asyncio.gather(working, return_exceptions=True)] == [
            asyncio.CancelledError
        ]


async def _hold_open(queue: procrastinate.App) -> None:
    async with opened(queue):
        await asyncio.Event().wait()


def _count_connections(queue: procrastinate.App) -> int:
    assert isinstance(queue.connector, RetryingConnector)
    try:
        return queue.connector.pool.get_stats()["pool_available"]
    except procrastinate.exceptions.AppNotOpen:
        return 0
