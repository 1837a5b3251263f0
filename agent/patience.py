"""Holding on to what cost money while the database is away for a moment, and letting go of what never ends."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    retry_if_not_exception_type,
    stop_after_delay,
    wait_exponential,
)

from shared.database import REFUSED, DatabaseLost, is_duplicate

Result = TypeVar("Result")

FIRST_WAIT = 0.1
# A tool that holds on when it is cancelled is left behind after this.
LEAVE_SECONDS = 0.5


class WrittenBefore(DatabaseLost):
    """I lost my database for a moment; please try again."""


async def insist(work: Callable[[], Awaitable[Result]], seconds: float) -> Result:
    """Do database work again while the connection is lost, for so long at the most.

    A model answer that was paid for is not given away to a cut connection. When a first try was committed and only its
    word was lost, the second meets its own rows: then `WrittenBefore` sends the turn back to its journal at once.
    """
    try:
        # Nearly always the only try, and one of every turn's: tenacity is left out of it.
        return await work()
    except DatabaseLost:
        await asyncio.sleep(FIRST_WAIT)

    async def again() -> Result:
        try:
            return await work()
        except REFUSED as error:
            if not is_duplicate(error):
                raise
            raise WrittenBefore from error

    patiently = AsyncRetrying(
        retry=retry_if_exception_type(DatabaseLost) & retry_if_not_exception_type(WrittenBefore),
        wait=wait_exponential(multiplier=2 * FIRST_WAIT, max=2),
        stop=stop_after_delay(max(0.0, seconds)),
        reraise=True,
    )
    return await patiently(again)


async def unbroken(work: Coroutine[Any, Any, Result]) -> Result:
    """Do database work to its end also when a stop comes in the middle; the stop is heard afterwards.

    Otherwise nobody would know whether it was written.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


async def within(seconds: float, work: Awaitable[Result]) -> Result:
    """Wait for a tool for so long; raises `TimeoutError`. One that holds on when it is cancelled is left behind."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_look_away)
            await asyncio.wait({task}, timeout=LEAVE_SECONDS)
    raise TimeoutError


def _look_away(task: "asyncio.Future[Any]") -> None:
    # What comes of it is nobody's any more, and no cause for a warning either.
    if not task.cancelled():
        task.exception()
