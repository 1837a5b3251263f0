"""Waiting for what no signal tells of: it is asked again and again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

# Seconds that a test waits for something that does happen: a process that starts on a busy machine takes very long.
PATIENCE = 100


async def eventually(check: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until this returns something, and return that."""
    pause = 0.01
    async with asyncio.timeout(PATIENCE):
        while not (result := await check()):
            await asyncio.sleep(pause)
            # Most come soon; to ask often for what takes seconds would cost the processor more than what is tested.
            pause = min(1.5 * pause, 0.2)
    return result
