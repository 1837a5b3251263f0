"""Listening to one account: one process does, in batches from the platform's mark on, and another one follows it."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from adapters.api_client import Json
from adapters.base import Running, isolated
from adapters.chat.checkpoint import Lease, oldest_missed
from adapters.chat.intake import Intake
from shared.db.database import DatabaseLost
from shared.log import get_logger

if TYPE_CHECKING:
    from adapters.chat.posting import PostingPlatform

CLOSE_SECONDS = 5.0

log = get_logger()


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

    async def take_all(
        self,
        events: Sequence[Json],
        take: Callable[[Json, bool], Awaitable[None]],
        *,
        to_sent_at: Callable[[Json], datetime],
        place: str,
    ) -> None:
        """Take events by `take(event, is_late)`, one after the other; whatever one holds, the others are taken.

        Late is what is so old that nobody waits for an answer. Where the database is lost, the mark stays, and the next
        connection reads the events again.
        """
        oldest, names = oldest_missed(self.app), {"platform": self.platform.name, "place": place}
        late = [to_sent_at(event) < oldest for event in events]
        if any(late):
            log.info("events_too_old", events=sum(late), **names)
        for event, is_late in zip(events, late, strict=True):
            work, event_id = take(event, is_late), event.get("event_id")
            await isolated(work, "event_not_taken", unless=(DatabaseLost,), event_id=event_id, **names)

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
