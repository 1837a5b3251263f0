"""Holding on to what cost money while the database is away for a moment, and letting go of what never ends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    retry_if_not_exception_type,
    stop_after_delay,
    wait_exponential,
)

from shared.db.database import REFUSED, DatabaseLost, is_duplicate

Result = TypeVar("Result")

FIRST_WAIT = 0.1


class WrittenBefore(DatabaseLost):
    """I lost my database for a moment; please try again."""


async def retry_on_lost_db(work: Callable[[], Awaitable[Result]], seconds: float) -> Result:
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
