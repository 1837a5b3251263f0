"""The procrastinate app for our Postgres; a restart of the database is waited for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Any, TypeVar, cast

import procrastinate
from procrastinate.exceptions import ConnectorException
from psycopg import AsyncConnection, Error, OperationalError
from psycopg_pool import AsyncConnectionPool
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    wait_chain,
    wait_fixed,
)

from shared.db.connections import ANSWER_SECONDS, NOT_VERIFIED, QUEUE_NAME, STATEMENT_SECONDS
from shared.db.database import Database
from shared.db.errors import is_stale
from shared.log import get_logger
from shared.tasks import is_cancelled

Method = TypeVar("Method", bound=Callable[..., Any])

# Seconds between retries; short, because a waiting job holds the lock of its place.
DATABASE_WAITS = (0.1, 0.5, 1.0, 2.0)
# How long a statement waits for a connection, and how long the pool tries to open one before it begins anew: its waits
# between tries double, and after a minute without a database the next one would be a minute away.
CONNECTION_SECONDS = 2.0
log = get_logger()


def _is_lost(error: BaseException) -> bool:
    cause = error.__cause__
    if not isinstance(error, ConnectorException) or cause is None:
        return False
    return isinstance(cause, OperationalError) or is_stale(cause)


async def _replace_lost(state: RetryCallState) -> None:
    # When one connection is lost or silent, the others of the pool are too; to ask them would be another silence.
    error = state.outcome.exception() if state.outcome is not None else None
    if error is not None:
        log.warning("queue_connections_replaced", cause=str(error.__cause__))
    await _renew(state.args[0].pool)


async def _renew(pool: AsyncConnectionPool) -> None:
    await pool.drain()
    # Of a pool that is empty now, this asks none and opens one.
    await pool.check()


_retrying = AsyncRetrying(
    retry=retry_if_exception(_is_lost),
    wait=wait_chain(*map(wait_fixed, DATABASE_WAITS)),
    # procrastinate shields its statements from the worker's cancellation, so that running jobs can end.
    stop=lambda state: is_cancelled(state.args[0].worker),
    before_sleep=_replace_lost,
    reraise=True,
)


def _retried(method: Method) -> Method:
    # The first try nearly always succeeds: it avoids the overhead of tenacity.
    again = _retrying.wraps(method)

    @wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return await method(*args, **kwargs)
        except ConnectorException as error:
            if not _is_lost(error):
                raise
        return await again(*args, **kwargs)

    return cast(Method, call)


def _limited(method: Method) -> Method:
    @wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            async with asyncio.timeout(STATEMENT_SECONDS + ANSWER_SECONDS):
                return await method(*args, **kwargs)
        except TimeoutError:
            raise ConnectorException from OperationalError("the database does not answer")

    return cast(Method, call)


class RetryingConnector(procrastinate.PsycopgConnector):
    """procrastinate's connector; retries while the database restarts, so that the worker does not end.

    Once the task that has opened it is cancelled, the error of a lost database is raised.
    """

    worker: asyncio.Task[Any] | None = None

    async def open_async(self, pool: AsyncConnectionPool | None = None) -> None:
        """Open the pool for the current task."""
        self.worker = asyncio.current_task()
        await super().open_async(pool)

    execute_query_async = _retried(_limited(procrastinate.PsycopgConnector.execute_query_async))
    execute_query_one_async = _retried(_limited(procrastinate.PsycopgConnector.execute_query_one_async))
    execute_query_all_async = _retried(_limited(procrastinate.PsycopgConnector.execute_query_all_async))
    listen_notify = _retried(procrastinate.PsycopgConnector.listen_notify)


async def _configure(setup: str, connection: AsyncConnection[Any]) -> None:
    # Every transaction here is a single statement; BEGIN and COMMIT would add two round trips.
    await connection.set_autocommit(True)
    try:
        async with asyncio.timeout(STATEMENT_SECONDS):
            await connection.execute(setup.encode())
    except Error as error:
        if error.sqlstate == NOT_VERIFIED:
            log.error("connection_refused", cause=str(error).partition("\n")[0])
        raise


@asynccontextmanager
async def opened(queue: procrastinate.App) -> AsyncIterator[None]:
    """Open the queue's connections for the block."""
    try:
        while True:
            try:
                await queue.open_async()
                break
            except ConnectorException as error:
                log.warning("queue_waits_for_database", cause=str(error.__cause__ or error))
                # A pool that could not be opened can't be opened again.
                await queue.close_async()
                await asyncio.sleep(DATABASE_WAITS[-1])
        if is_cancelled():
            # Before Python 3.12, the pool's `asyncio.wait_for` may lose a cancellation: the worker would run on.
            raise asyncio.CancelledError
        yield
    finally:
        # Also if opening was cancelled: the pool's tasks treat a cancellation as a failed connection and go on, which
        # would keep the process from exiting.
        await queue.close_async()


async def replace_connections(queue: procrastinate.App) -> None:
    """Replace all connections of the queue by new ones."""
    if isinstance(queue.connector, RetryingConnector):
        await queue.connector.pool.drain()


def build_queue(database: Database) -> procrastinate.App:
    """Return the job queue on the same Postgres, with a small pool of its own."""
    # If the server crashes, the last changes of the queue may be lost; the sweep then finds the affected messages.
    setup = database.address.setup(application_name=QUEUE_NAME, synchronous_commit="off")
    connector = RetryingConnector(
        # By default each use of a connection is preceded by a test query; retrying after an error is cheaper.
        pool_factory=lambda **options: AsyncConnectionPool(**options | {"check": None, "reconnect_failed": _renew}),
        conninfo=database.address.libpq(),
        configure=partial(_configure, setup),
        min_size=1,
        max_size=4,
        timeout=CONNECTION_SECONDS,
        reconnect_timeout=CONNECTION_SECONDS,
        name="queue",
    )
    return procrastinate.App(connector=connector)
