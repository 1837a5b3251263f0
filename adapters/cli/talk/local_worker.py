"""A worker in this process, where no other answers."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from shared.db.database import DatabaseLost

if TYPE_CHECKING:
    from agent.app import App
    from agent.queue.heartbeats import LiveWorkers

WATCH_SECONDS = 3.0


class LocalWorker:
    """Runs a worker in this process as long as no other worker is alive."""

    def __init__(self, running_app: "App") -> None:
        self._app = running_app
        self._work: asyncio.Task[None] | None = None
        self._workers: LiveWorkers | None = None
        self._watch = asyncio.create_task(self._look_again(), name="look for workers")

    @property
    def is_running(self) -> bool:
        """Return whether the worker runs."""
        return self._work is not None and not self._work.done()

    async def ensure_worker(self) -> None:
        """Start a worker in this process if no other is alive."""
        from agent.queue.heartbeats import LiveWorkers

        if self.is_running:
            return
        self._workers = self._workers or LiveWorkers()
        async with self._app.database.transaction() as session:
            if await self._workers.count(session, self._app.clock.monotonic()):
                return
        # Imported here: beside a running Parley its workers answer.
        from adapters.cli.worker import build_worker

        self._work = asyncio.create_task(build_worker(self._app).run(), name="worker")

    async def close(self) -> None:
        """Stop the worker; its turns are finished or handed over."""
        tasks = [task for task in (self._watch, self._work) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_again(self) -> None:
        # A worker that was killed counts as alive until its heartbeat is too old.
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            with suppress(DatabaseLost):
                await self.ensure_worker()
