"""The turns that run in this process, so that a person's stop reaches them."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from shared.errors import Stopped

REMEMBERED = 200


class Stops:
    """Turns by id, each with the task that runs it."""

    def __init__(self) -> None:
        self._running: dict[int, asyncio.Task[Any]] = {}
        self._asked: set[int] = set()
        # Asked while a turn was being opened, here or elsewhere; the newest are enough.
        self._early: deque[int] = deque(maxlen=REMEMBERED)

    def ask(self, turn_id: int) -> None:
        """Stop this turn if it runs here."""
        task = self._running.get(turn_id)
        if task is None:
            self._early.append(turn_id)
            return
        self._asked.add(turn_id)
        task.cancel()

    @asynccontextmanager
    async def watch(self, turn_id: int) -> AsyncIterator[None]:
        """Let the block be stopped: it then raises `Stopped`. Any other cancellation passes through."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a turn runs in a task")
        if turn_id in self._early:
            raise Stopped
        self._running[turn_id] = task
        try:
            yield
        except asyncio.CancelledError:
            if turn_id not in self._asked:
                raise
            task.uncancel()
            raise Stopped from None
        finally:
            del self._running[turn_id]
            self._asked.discard(turn_id)
