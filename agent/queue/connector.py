"""procrastinate on our Postgres: a connector that waits while the database restarts."""

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

# A job that waits holds the lock of its place: wait for the database in short steps.
DATABASE_WAITS = (0.1, 0.5, 1.0, 2.0)


log = get_logger()
Result = TypeVar("Result")


class RetryingConnector(procrastinate.PsycopgConnector):
    """procrastinate's connector, which waits while the database restarts instead of ending the worker."""

    async def execute_query_async(self, query: Any, **arguments: Any) -> None:
        """Run a statement."""
        try:
            await self._retried(lambda: super(RetryingConnector, self).execute_query_async(query, **arguments))
        except ConnectorException as error:
            # Another worker thought us dead, ended this job and queued it again.
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
        """Listen for jobs, for ever."""
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
    # procrastinate checks a connection by a statement before each statement; retrying afterwards is cheaper.
    return AsyncConnectionPool(**given | {"check": None})


async def _configure(connection: AsyncConnection[Any]) -> None:
    # One statement is one transaction here: BEGIN and COMMIT of their own would be two more round trips.
    await connection.set_autocommit(True)
    # When the server crashes, the queue's last changes may be lost: the sweep finds the jobs they were about.
    await connection.execute("SET synchronous_commit = off")


@asynccontextmanager
async def opened(queue: procrastinate.App) -> AsyncIterator[None]:
    """Open the queue's connections for the block."""
    try:
        await queue.open_async()
        yield
    finally:
        # Also when opening was cancelled: the pool's tasks treat a cancellation as a failed connection and continue,
        # and a process with one of them never ends.
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
