"""Batching of the same request made by many callers at once: a burst costs a few statements instead of one each."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from shared.db.database import DatabaseLost

Key = TypeVar("Key")
Result = TypeVar("Result")

MAX_BATCH = 200


class BatchLoader(Generic[Key, Result]):
    """Collects the keys that arrive while a batch is being loaded, and loads them together as the next one.

    `load_batch` returns one result per key, in the order of the keys. When it fails for several keys, each is loaded
    alone, so that one bad key does not fail the others; `DatabaseLost` fails all of them.
    """

    def __init__(self, load_batch: Callable[[Sequence[Key]], Awaitable[Sequence[Result]]]) -> None:
        self._load_batch = load_batch
        self._waiting: list[tuple[Key, asyncio.Future[Result]]] = []
        self._loading: asyncio.Task[None] | None = None

    async def load(self, key: Key) -> Result:
        """Return the result for this key."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, future))
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(self._load_waiting(), name="batch loader")
        return await future

    async def _load_waiting(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            error = await self._load(batch)
            if error is None:
                continue
            is_final = len(batch) == 1 or isinstance(error, DatabaseLost)
            for request in batch:
                failure = error if is_final else await self._load([request])
                if failure is not None and not request[1].done():
                    request[1].set_exception(failure)

    async def _load(self, batch: Sequence[tuple[Key, "asyncio.Future[Result]"]]) -> BaseException | None:
        (results,) = await asyncio.gather(self._load_batch([key for key, _ in batch]), return_exceptions=True)
        if isinstance(results, BaseException):
            return results
        for (_, future), result in zip(batch, results, strict=True):
            # Done already when its caller was cancelled.
            if not future.done():
                future.set_result(result)
        return None
