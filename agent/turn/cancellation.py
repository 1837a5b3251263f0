"""Cancels the turns that run in this process when a user asks them to stop."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from shared.errors import Stopped

REMEMBERED = 200


class Cancellations:
    """Maps the ids of running turns to their asyncio tasks, so that a turn can be cancelled by its id."""

    def __init__(self) -> None:
        self._running: dict[int, asyncio.Task[Any]] = {}
        self._asked: set[int] = set()
        # Stop requests for turns that do not run here yet: still being opened, or run by another process. Bounded.
        self._early: deque[int] = deque(maxlen=REMEMBERED)

    def cancel(self, turn_id: int) -> None:
        """Cancel this turn if it runs here; otherwise remember the request for when the turn starts here."""
        task = self._running.get(turn_id)
        if task is None:
            self._early.append(turn_id)
            return
        self._asked.add(turn_id)
        task.cancel()

    @asynccontextmanager
    async def watch(self, turn_id: int) -> AsyncIterator[None]:
        """Make the block cancellable by `cancel`.

        Raises `Stopped` when a stop was requested; any other cancellation propagates as `CancelledError`.
        """
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
