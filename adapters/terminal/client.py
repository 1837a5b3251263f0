"""What the terminal needs of Parley: a session that stores messages, and one that hears what becomes of them.

The whole program, which takes a second to import, is opened for what only it can do: commands, a worker.
"""

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from agent.live.listener import Listener
from agent.queue.inbox import Inbox
from shared.clock import Clock
from shared.db.single import SessionSource
from shared.settings import Settings

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from agent.app import App
    from shared.files.stores.store import Store


class Client(Struct, frozen=True, dict=True):
    """A way to ask; `open_app` returns the whole program, opened once, `open_store` where files are kept."""

    settings: Settings
    database: SessionSource
    events: Listener
    clock: Clock
    open_app: "Callable[[], Awaitable[App]]"
    open_store: "Callable[[], AbstractAsyncContextManager[Store]]"

    @cached_property
    def inbox(self) -> Inbox:
        """Build the inbox, which stores what is said here."""
        return Inbox(self.database, self.events.notifier)
