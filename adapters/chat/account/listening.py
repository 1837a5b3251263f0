"""Listening to one account: one process does, in batches from the platform's mark on, and another one follows it."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from datetime import datetime
from typing import TYPE_CHECKING

from adapters.base import Running, isolated
from adapters.chat.checkpoint import Lease, oldest_missed
from adapters.chat.intake import Intake
from shared.db.database import DatabaseLost

if TYPE_CHECKING:
    from adapters.chat.posting import PostingPlatform

CLOSE_SECONDS = 5.0


class Listener(ABC):
    """What listens to an account. The mark moves on when all before it is stored: whoever follows begins there."""

    def __init__(self, platform: "PostingPlatform", account: str) -> None:
        self.platform, self.app, self.account = platform, platform.app, account
        self.intake = Intake(platform)
        self._lease, self._running = Lease(platform.app, platform.name, account), Running()

    async def run(self) -> None:
        """Listen until the connection or the lease is lost; while another process listens, wait."""
        try:
            await self._lease.listen(self._listen)
        finally:
            await self._running.settle(CLOSE_SECONDS)

    @abstractmethod
    async def begin(self) -> str:
        """Read what has to be known before anything is taken, and return the mark of now."""

    @abstractmethod
    async def read(self, mark: str) -> str:
        """Take what has happened since this mark, and return the mark after it."""

    async def take(self, work: Awaitable[None], event_id: object) -> None:
        """Take one event of many; whatever it holds, the others are taken.

        Where the database is lost, the mark stays, and the next connection reads the event again.
        """
        await isolated(work, "event_not_taken", unless=(DatabaseLost,), platform=self.platform.name, event_id=event_id)

    def is_missed(self, sent_at: datetime) -> bool:
        """Return whether an event is so old that nobody waits for an answer."""
        return sent_at < oldest_missed(self.app)

    def start(self, work: Awaitable[object], what: str, place: str = "") -> None:
        """Do something beside; a shutdown does not wait for it."""
        self._running.start(isolated(work, f"{what}_failed", platform=self.platform.name, place=place), what)

    async def _listen(self, mark: str | None) -> None:
        now = await self.begin()
        if mark is None:
            await self._lease.note(mark := now)
        while True:
            if (later := await self.read(mark)) != mark:
                await self._lease.note(mark := later)
