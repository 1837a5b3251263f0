"""procrastinate on our Postgres: a connection that waits for a database that restarts."""

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

# A waiting job holds its place's lock: never wait long for the database.
DATABASE_WAITS = (0.1, 0.5, 1.0, 2.0)


log = get_logger()
Result = TypeVar("Result")


class PatientConnector(procrastinate.PsycopgConnector):
    """procrastinate's connection, which waits for a database that restarts instead of ending the worker."""

    async def execute_query_async(self, query: Any, **arguments: Any) -> None:
        """Run a statement."""
        try:
            await self._patiently(lambda: super(PatientConnector, self).execute_query_async(query, **arguments))
        except ConnectorException as error:
            # The end of a job that was ended for us, because we seemed dead, and queued anew.
            if not isinstance(error.__cause__, RaiseException):
                raise
            log.info("job_was_taken_over")

    async def execute_query_one_async(self, query: Any, **arguments: Any) -> dict[str, Any]:
        """Run a statement and return its row."""
        return await self._patiently(lambda: super(PatientConnector, self).execute_query_one_async(query, **arguments))

    async def execute_query_all_async(self, query: Any, **arguments: Any) -> list[dict[str, Any]]:
        """Run a statement and return its rows."""
        return await self._patiently(lambda: super(PatientConnector, self).execute_query_all_async(query, **arguments))

    async def listen_notify(self, on_notification: Any, channels: Iterable[str]) -> None:
        """Listen for jobs, for ever."""
        await self._patiently(lambda: super(PatientConnector, self).listen_notify(on_notification, channels))

    async def _patiently(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        waits = 0
        while True:
            try:
                return await attempt()
            except ConnectorException as error:
                if not isinstance(error.__cause__, OperationalError):
                    raise
                await asyncio.sleep(DATABASE_WAITS[min(waits, len(DATABASE_WAITS) - 1)])
                waits += 1
                # What one connection has lost, the others of the pool have lost too.
                await self.pool.check()


def _open_pool(**given: Any) -> AsyncConnectionPool:
    # procrastinate checks a connection before each statement, by a statement; to be patient afterwards is cheaper.
    return AsyncConnectionPool(**given | {"check": None})


async def _configure(connection: AsyncConnection[Any]) -> None:
    # One statement is one transaction here: BEGIN and COMMIT of their own would be two more round trips.
    await connection.set_autocommit(True)
    # When the server crashes, the queue's last moments may be gone: the sweep finds what was taken or ended in them.
    await connection.execute("SET synchronous_commit = off")


@asynccontextmanager
async def opened(queue: procrastinate.App) -> AsyncIterator[None]:
    """Open the queue's connections for the block."""
    try:
        await queue.open_async()
        yield
    finally:
        # Also when it was cancelled while it opened: tasks of the pool take a cancellation for a failed connection and
        # go on, and a process with one of them never ends.
        await queue.close_async()


def build_queue(database: Database) -> procrastinate.App:
    """Return the job queue on the same Postgres, with a small pool of its own."""
    return procrastinate.App(
        connector=PatientConnector(
            pool_factory=_open_pool,
            conninfo=database.address.libpq(),
            configure=_configure,
            min_size=1,
            max_size=4,
            timeout=10,
            name="queue",
        )
    )
