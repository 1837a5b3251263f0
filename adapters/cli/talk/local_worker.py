"""The whole program in this process: opened when something needs it, with a worker where no other answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

from adapters.cli.console import progress
from agent.queue.heartbeats import LiveWorkers
from shared.db.database import DatabaseLost
from shared.db.errors import refusals
from shared.db.statements import load_statements
from shared.errors import ConfigurationError, Refusal

if TYPE_CHECKING:
    from agent.app import App
    from shared.db.database import Address
    from shared.db.single import SessionSource
    from shared.settings import Settings

statements = load_statements(__file__)

WATCH_SECONDS = 3.0


class LocalWorker:
    """Runs a worker in this process as long as no other worker is alive; `model` is asked here first."""

    def __init__(
        self, settings: "Settings", address: "Address", database: "SessionSource", *, model: str | None = None
    ) -> None:
        self._settings, self._address, self._database, self._model = settings, address, database, model
        self._app: App | None = None
        self._opening, self._closing = asyncio.Lock(), AsyncExitStack()
        self._work: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        self._workers = LiveWorkers()

    async def open_app(self) -> "App":
        """Return the whole program, opened once; progress is shown on a terminal."""
        if self._app is not None:
            return self._app
        with progress("starting"):
            return await self._open()

    async def begin(self) -> None:
        """Do as `ensure_worker`; progress is shown on a terminal, where nothing else is drawn yet."""
        if await self._is_needed():
            await self.open_app()
            await self._work_here()

    async def ensure_worker(self) -> None:
        """Start a worker in this process if no other is alive."""
        if await self._is_needed():
            await self._work_here()

    @asynccontextmanager
    async def watched(self, seconds: float = WATCH_SECONDS) -> AsyncIterator[None]:
        """Look every few seconds, during the block, whether a worker lives, and start one here when none does.

        Raises `Refusal` at once, whatever the block waits for, when none can be started with these settings.
        """
        block, is_over = asyncio.current_task(), False

        def end_block(watch: asyncio.Task[None]) -> None:
            if not watch.cancelled() and not is_over and block is not None:
                block.cancel()

        watch = asyncio.create_task(self._look_again(seconds), name="look for workers")
        watch.add_done_callback(end_block)
        try:
            yield
        except asyncio.CancelledError:
            error = watch.exception() if watch.done() and not watch.cancelled() else None
            if error is None or block is None:
                raise
            block.uncancel()
            raise (Refusal(str(error)) if isinstance(error, ConfigurationError) else error) from None
        finally:
            # The answer may have come in the very moment in which the watch gave up.
            is_over = True
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def check_model(self, name: str) -> None:
        """Raise `Refusal` for a model that nobody has, or whose key is not set where this process answers."""
        if self._app is None:
            # The worker beside has the keys, and has noted which models there are.
            with refusals():
                async with self._database.statement() as session:
                    await session.execute(statements.check_model, {"model": name})
            return
        # Imported here: it brings the models' library.
        from adapters.cli.check_models import check_key

        finding = await check_key(self._app.models.router, "--model", name)
        if finding.level == "fail":
            raise Refusal(finding.text)

    async def warm(self) -> None:
        """Wait until a worker in this process can call models, whose library is imported before the turn begins."""
        if self._warming is not None:
            await self._warming

    async def close(self) -> None:
        """Stop the worker, whose turns are finished or handed over, and close the program."""
        tasks = [task for task in (self._work, self._warming) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._closing.aclose()

    async def _is_needed(self) -> bool:
        if self._work is not None and not self._work.done():
            return False
        async with self._database.statement() as session:
            return not await self._workers.count(session, asyncio.get_running_loop().time())

    async def _work_here(self) -> None:
        app = await self._open()
        # Imported here: beside a running Parley its workers answer.
        from adapters.cli.worker import build_worker

        # Another task may have begun meanwhile.
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(build_worker(app).run(), name="worker")
        if self._warming is None:
            models = filter(None, (self._model,))
            self._warming = asyncio.create_task(app.models.router.warm(*models), name="warm")

    async def _open(self) -> "App":
        # Imported here: it takes a second, and beside a running Parley most questions need none of it.
        from adapters.cli.compose import open_app
        from adapters.cli.neighbours import joined

        async with self._opening:
            if self._app is None:
                async with AsyncExitStack() as closing:
                    app = await closing.enter_async_context(open_app(self._settings, self._address))
                    await closing.enter_async_context(joined(app))
                    self._closing.push_async_exit(closing.pop_all())
                self._app = app
            return self._app

    async def _look_again(self, seconds: float) -> None:
        # A worker that was killed counts as alive until its heartbeat is too old.
        while True:
            await asyncio.sleep(seconds)
            with suppress(DatabaseLost):
                await self.ensure_worker()
