"""The procrastinate app for our Postgres, with a connector that retries while the database restarts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import procrastinate
from procrastinate.exceptions import ConnectorException
from psycopg import AsyncConnection, OperationalError
from psycopg.errors import RaiseException
from psycopg_pool import AsyncConnectionPool

from shared.db.database import Database
from shared.log import get_logger

# Seconds between retries; short, because a waiting job holds the lock of its place.
DATABASE_WAITS = (0.1, 0.5, 1.0, 2.0)


log = get_logger()
Result = TypeVar("Result")


class RetryingConnector(procrastinate.PsycopgConnector):
    """procrastinate's connector; retries while the database restarts, so that the worker does not end."""

    async def execute_query_async(self, query: Any, **arguments: Any) -> None:
        """Run a statement."""
        try:
            await self._retried(lambda: super(RetryingConnector, self).execute_query_async(query, **arguments))
        except ConnectorException as error:
            # Another worker considered this one dead, ended this job and queued it again.
            if not isinstance(error.__cause__, RaiseException):
                raise
            log.info("job_was_taken_over")

    async def execute_query_one_async(self, query: Any, **arguments: Any) -> dict[str, Any]:
        """Run a statement and return its row."""
        return await self._retried(lambda: super(RetryingConnector, self).execute_query_one_async(query, **arguments))

    async def execute_query_all_async(self, query: Any, **arguments: Any) -> list[dict[str, Any]]:
        """Run a statement and return its rows."""
        return await self._retried(lambda: super(RetryingConnector, self).execute_query_all_async(query, **arguments))

    async def listen_notify(self, on_notification: Any, channels: Iterable[str]) -> None:
        """Listen for notifications of new jobs until cancelled."""
        await self._retried(lambda: super(RetryingConnector, self).listen_notify(on_notification, channels))

    async def _retried(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        waits = 0
        while True:
            try:
                return await attempt()
            except ConnectorException as error:
                if not isinstance(error.__cause__, OperationalError):
                    raise
                await asyncio.sleep(DATABASE_WAITS[min(waits, len(DATABASE_WAITS) - 1)])
                waits += 1
                # When one connection is lost, the others of the pool are lost too.
                await self.pool.check()


def _open_pool(**given: Any) -> AsyncConnectionPool:
    # By default each use of a connection is preceded by a test query; retrying after an error is cheaper.
    return AsyncConnectionPool(**given | {"check": None})


async def _configure(connection: AsyncConnection[Any]) -> None:
    # Every transaction here is a single statement; BEGIN and COMMIT would add two round trips.
    await connection.set_autocommit(True)
    # If the server crashes, the last changes of the queue may be lost; the sweep then finds the affected messages.
    await connection.execute("SET synchronous_commit = off")


@asynccontextmanager
async def opened(queue: procrastinate.App) -> AsyncIterator[None]:
    """Open the queue's connections for the block."""
    try:
        await queue.open_async()
        yield
    finally:
        # Also if opening was cancelled: the pool's tasks treat a cancellation as a failed connection and go on, which
        # would keep the process from exiting.
        await queue.close_async()


def build_queue(database: Database) -> procrastinate.App:
    """Return the job queue on the same Postgres, with a small pool of its own."""
    return procrastinate.App(
        connector=RetryingConnector(
            pool_factory=_open_pool,
            conninfo=database.address.libpq(),
            configure=_configure,
            min_size=1,
            max_size=4,
            timeout=10,
            name="queue",
        )
    )
