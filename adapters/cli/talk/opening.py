"""A client with what stands behind it, opened for the time of a conversation."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING

from adapters.cli.opening import kept_up, opened_connection
from adapters.cli.talk.local_worker import WATCH_SECONDS, LocalWorker
from adapters.terminal.client import Client
from agent.live.listener import Listener
from shared.clock import SystemClock
from shared.redaction import hide_settings
from shared.settings import list_secret_values, load_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.db.database import Address
    from shared.files.stores.store import Store
    from shared.settings import Settings
    from shared.tools import Words


@asynccontextmanager
async def opened_client(
    settings: "Settings", address: "Address", *, model: str | None = None, watch_seconds: float = WATCH_SECONDS
) -> AsyncIterator[tuple[Client, LocalWorker]]:
    """Open a client, with a worker in this process while no other one lives."""
    secrets = load_secrets(settings)
    hide_settings(list_secret_values(settings, secrets))
    async with AsyncExitStack() as closing:
        await closing.enter_async_context(kept_up(settings, address))
        database = await closing.enter_async_context(opened_connection(settings, address))
        bus = None
        if settings.bus_url is not None:
            # An extra, which few installations have.
            from adapters.cli.compose import open_bus

            bus = open_bus(settings, database, secrets.secret_keys)
        worker = LocalWorker(settings, address, database, model=model)
        closing.push_async_callback(worker.close)
        await worker.begin()
        events = Listener(database, secrets.secret_keys, bus=bus)
        closing.push_async_callback(events.close)
        await events.start()

        @asynccontextmanager
        async def opened_store() -> "AsyncIterator[Store]":
            # Imported here: most questions bring no files.
            from adapters.cli.neighbours import Neighbours
            from shared.files.stores import open_store

            if not address.is_embedded:
                # What is kept elsewhere than at the worker that answers, it could not read.
                await Neighbours(database, settings, secrets).check()
            async with aclosing(open_store(settings)) as store:
                yield store

        async with worker.watched(watch_seconds):
            clock = SystemClock()
            yield (
                Client(settings, database, events, clock=clock, open_app=worker.open_app, open_store=opened_store),
                worker,
            )


def words_finder(settings: "Settings") -> "Callable[[str], Words | None]":
    """Return what tells by a tool's name what its calls do; the modules are imported with the first call."""

    @cache
    def read_words() -> "dict[str, Words | None]":
        from agent.tools.modules import discover

        return {name: tool.words for name, tool in discover(settings.modules_path, settings).tools.items()}

    return lambda name: read_words().get(name)
