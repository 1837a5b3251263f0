"""Many who ask for the same at one moment are served in one go: a burst costs a few statements, not one each."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from shared.db.database import DatabaseLost

One = TypeVar("One")
Result = TypeVar("Result")

MOST_TOGETHER = 200


class BatchLoader(Generic[One, Result]):
    """Gathers what is asked for while the work on what was asked before goes on.

    `work` gives a result for each in their order. When it fails for several, each is tried by itself, so that nobody
    pays for another's mistake; a lost database is lost for all.
    """

    def __init__(self, work: Callable[[Sequence[One]], Awaitable[Sequence[Result]]]) -> None:
        self._work = work
        self._waiting: list[tuple[One, asyncio.Future[Result]]] = []
        self._serving: asyncio.Task[None] | None = None

    async def ask(self, one: One) -> Result:
        """Return the result for this one."""
        asked: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((one, asked))
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve(), name="together")
        return await asked

    async def _serve(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
            error = await self._serve_all(batch)
            if error is None:
                continue
            alone = len(batch) == 1 or isinstance(error, DatabaseLost)
            for each in batch:
                failure = error if alone else await self._serve_all([each])
                if failure is not None and not each[1].done():
                    each[1].set_exception(failure)

    async def _serve_all(self, batch: Sequence[tuple[One, "asyncio.Future[Result]"]]) -> BaseException | None:
        (results,) = await asyncio.gather(self._work([one for one, _ in batch]), return_exceptions=True)
        if isinstance(results, BaseException):
            return results
        for (_, asked), result in zip(batch, results, strict=True):
            # Who has gone meanwhile waits for nothing.
            if not asked.done():
                asked.set_result(result)
        return None
