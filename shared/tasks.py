"""Tasks that must end: work that a cancellation does not break off, and work with a time limit."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

from shared.db.retries import Result

# A tool that holds on when it is cancelled is left behind after this.
LEAVE_SECONDS = 0.5


async def shield_until_done(work: Coroutine[Any, Any, Result]) -> Result:
    """Do database work to its end also when a stop comes in the middle; the stop is heard afterwards.

    Otherwise nobody would know whether it was written.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


async def run_with_timeout(seconds: float, work: Awaitable[Result]) -> Result:
    """Wait for a tool for so long; raises `TimeoutError`. One that holds on when it is cancelled is left behind."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_ignore_result)
            await asyncio.wait({task}, timeout=LEAVE_SECONDS)
    raise TimeoutError


def _ignore_result(task: "asyncio.Future[Any]") -> None:
    # What comes of it is nobody's any more, and no cause for a warning either.
    if not task.cancelled():
        task.exception()
