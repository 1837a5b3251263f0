"""Opens an app for each cell behind a door."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from adapters.cells.addresses import check_cell, get_cell
from adapters.cells.routes import Cells
from adapters.cli.compose import open_app
from adapters.cli.neighbours import joined
from adapters.cli.opening import prepare
from agent.app import App
from shared.db.connections import NoDatabase, ReadOnlyDatabase
from shared.errors import ConfigurationError, Unavailable
from shared.log import get_logger
from shared.settings import Settings

# Between two tries to reach a cell.
WAIT_SECONDS = 1.0

log = get_logger()


@asynccontextmanager
async def opened_cells(cells_settings: Mapping[str, Settings], first: App) -> AsyncIterator[Cells]:
    """Open the cells for the block, of which the first one is open.

    One that is away is waited for in the background. Raises `ConfigurationError` when one is not what `CELLS` says.
    """
    cells = Cells(tuple(cells_settings))
    async with AsyncExitStack() as closing:
        await _check(first, cells.names[0])
        await cells.add(cells.names[0], first)
        openings = [_Opening(cells, name, settings=cells_settings[name], first=first) for name in cells.names[1:]]
        for opening in openings:
            closing.push_async_callback(opening.close)
            opening.start()
        for opening in openings:
            await opening.first_try
        closing.push_async_callback(cells.aclose)
        yield cells


class _Opening:
    """Opens one cell in a task, which keeps it open."""

    def __init__(self, cells: Cells, name: str, *, settings: Settings, first: App) -> None:
        self._cells, self._name, self._settings, self._first = cells, name, settings, first
        # Ends when the cell is open, or away.
        self.first_try: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._stay_open(), name=f"cell {self._name}")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _end_first_try(self, error: Exception | None = None) -> bool:
        if self.first_try.done():
            return False
        if error is None:
            self.first_try.set_result(None)
        else:
            self.first_try.set_exception(error)
        return True

    async def _stay_open(self) -> None:
        while True:
            try:
                address = get_cell({self._name: self._settings}, self._name)
                await prepare(self._settings, address)
                modules = self._first.tools.modules
                async with open_app(self._settings, address, modules=modules) as app, joined(app):
                    await _check(app, self._name)
                    await self._cells.add(self._name, app)
                    self._end_first_try()
                    await asyncio.get_running_loop().create_future()
            except (NoDatabase, ReadOnlyDatabase, Unavailable, OSError) as error:
                if self._end_first_try():
                    log.warning("cell_away", cell=self._name, cause=str(error))
            except ConfigurationError as error:
                if self._end_first_try(error):
                    return
                log.error("cell_refused", cell=self._name, cause=str(error))
            await asyncio.sleep(WAIT_SECONDS)


async def _check(app: App, name: str) -> None:
    connection = await app.database.connect()
    try:
        await check_cell(connection, name)
    finally:
        await connection.close()
