"""What is being taken just now, so that a stop can wait for it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Running:
    """The tasks that store what came in, which the library starts and forgets; and what runs beside them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._beside: set[asyncio.Task[Any]] = set()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Count the task of the block."""
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
        """Run something beside what the platform waits for; a stop does not wait for it."""
        task = asyncio.create_task(work, name=name)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def settle(self, seconds: float) -> None:
        """Wait so long for what came in to be stored; what takes longer is cut off, and comes again."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        tasks = [*self._tasks, *self._beside]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
