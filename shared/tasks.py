"""Awaiting work that cancellation must not interrupt, work with a time limit, on long texts, and a few at a time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

Result = TypeVar("Result")

# How long a cancelled tool may take to end; then it is no longer waited for.
LEAVE_SECONDS = 0.5
# Rendering or parsing a text of this length takes at most some 20 ms.
LONG_TEXT_CHARS = 10_000


class FairPool:
    """Lets `size` callers work at once, and of one person `per_person`; further callers wait.

    The callers of one person wait among themselves first, so that a person's many callers take nobody's turn.
    """

    def __init__(self, size: int, per_person: int) -> None:
        self._all = asyncio.Semaphore(size)
        self._per_person = per_person
        self._persons: WeakValueDictionary[object, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def enter(self, person: object) -> AsyncIterator[None]:
        """Wait for this person's turn; the block is the work."""
        own = self._persons.setdefault(person, asyncio.Semaphore(self._per_person))
        async with own, self._all:
            yield


@asynccontextmanager
async def repeated(work: Callable[[], Coroutine[Any, Any, None]], seconds: float) -> AsyncIterator[None]:
    """Do the work every so many seconds while the block runs, until it raises."""

    async def repeat() -> None:
        while True:
            await asyncio.sleep(seconds)
            await work()

    task = asyncio.create_task(repeat(), name="repeated")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def shield_until_done(work: Coroutine[Any, Any, Result]) -> Result:
    """Finish the work even when cancelled meanwhile; the cancellation is raised afterwards.

    For database work: interrupted in the middle of a commit, nobody would know whether it was written.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


def is_cancelled() -> bool:
    """Return whether the current task was asked to end, also if something has taken the `CancelledError` since."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def run_with_timeout(seconds: float, work: Awaitable[Result]) -> Result:
    """Wait for a tool at most so long, then cancel it and raise `TimeoutError`, even if it ignores the cancellation."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(ignore_result)
            await asyncio.wait({task}, timeout=LEAVE_SECONDS)
    raise TimeoutError


async def run_on_text(work: Callable[[str], Result], text: str) -> Result:
    """Return `work(text)`; for a long text it runs in a thread, so that the event loop goes on meanwhile.

    A thread can't be ended, so `work` must be a function whose time grows only with the length of the text.
    """
    return work(text) if len(text) <= LONG_TEXT_CHARS else await asyncio.to_thread(work, text)


def ignore_result(task: "asyncio.Future[Any]") -> None:
    """Retrieve the exception of a task that has ended, so that asyncio does not log one that nobody waits for."""
    if not task.cancelled():
        task.exception()
