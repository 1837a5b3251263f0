"""What is being taken just now, so that a stop can wait for it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Running:
    """The tasks that store what came in; the library starts them and forgets them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

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
        """Run something beside what Slack waits for."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self, seconds: float) -> None:
        """Wait for all of them for so long; what takes longer is cut off, and comes again."""
        tasks = self._tasks - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
