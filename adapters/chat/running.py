"""The tasks that store incoming messages, so that a shutdown can wait for them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Running:
    """Tasks of listeners, which the library starts without keeping a reference, and background tasks."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._beside: set[asyncio.Task[Any]] = set()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Count the current task while the block runs."""
        task = asyncio.current_task()
        if task is None or task in self._tasks:
            yield
            return
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    def start(self, work: Any, name: str) -> None:
        """Run a background task; a shutdown does not wait for it."""
        task = asyncio.create_task(work, name=name)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def settle(self, seconds: float) -> None:
        """Wait this many seconds for messages that are being stored; others are cancelled, and arrive again."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        tasks = [*self._tasks, *self._beside]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
