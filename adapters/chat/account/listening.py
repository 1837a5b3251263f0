"""Listening to one account: one process does, in batches from the platform's mark on, and another one follows it."""

from abc import ABC, abstractmethod
from asyncio import Queue, Semaphore, Task, TaskGroup, gather, wait
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from adapters.api_client import Json
from adapters.base import Running, isolated
from adapters.chat.checkpoint import Lease, oldest_missed
from adapters.chat.intake import Intake
from shared.db.database import DatabaseLost
from shared.errors import Unavailable
from shared.log import get_logger

if TYPE_CHECKING:
    from adapters.chat.posting import PostingPlatform

CLOSE_SECONDS = 5.0
# Batches that are read before all of the first is taken, and events that are taken at once.
MOST_BATCHES, MOST_EVENTS = 500, 20

Work = Callable[[], Awaitable[object]]

log = get_logger()


class Listener(ABC):
    """What listens to an account. The mark moves on when all before it is stored: whoever follows begins there.

    Each place has its own order and keeps no other waiting.
    """

    def __init__(self, platform: "PostingPlatform", account: str) -> None:
        self.platform, self.app, self.account = platform, platform.app, account
        self.intake = Intake(platform)
        self._lease, self._running = Lease(platform.app, platform.name, account), Running()
        # One slot for an event, not for a place: those with few events come between those with many.
        self.slots = Semaphore(MOST_EVENTS)
        self._latest: dict[str, Task[None]] = {}

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
    async def read(self, mark: str) -> tuple[str, Mapping[str, Work]]:
        """Read what has happened since this mark; return the mark after it, and by place the work that takes it."""

    def is_busy(self, place: str) -> bool:
        """Return whether earlier work of a place goes on."""
        return place in self._latest

    async def settle(self) -> None:
        """Return when all is taken that has been read up to now; where that is broken off, this is, too."""
        if tasks := list(self._latest.values()):
            await wait(tasks)
            for task in tasks:
                task.result()

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
            async with self.slots:
                work, event_id = take(event, is_late), event.get("event_id")
                await isolated(work, "event_not_taken", unless=(DatabaseLost,), event_id=event_id, **names)

    def start(self, work: Awaitable[object], what: str, place: str = "") -> None:
        """Do something beside; a shutdown does not wait for it."""
        self._running.start(isolated(work, f"{what}_failed", platform=self.platform.name, place=place), what)

    async def _listen(self, mark: str | None) -> None:
        now = await self.begin()
        if mark is None:
            await self._lease.note(mark := now)
        batches = Queue[tuple[str, Sequence[Task[None]]]](MOST_BATCHES)
        try:
            async with TaskGroup() as group:
                group.create_task(self._note_marks(batches))
                while True:
                    mark, works = await self.read(mark)
                    await batches.put((mark, [self._begin(group, place, work) for place, work in works.items()]))
        except ExceptionGroup as errors:
            # What comes of one is that the others end, too.
            raise errors.exceptions[0] from None

    async def _note_marks(self, batches: "Queue[tuple[str, Sequence[Task[None]]]]") -> None:
        while True:
            mark, tasks = await batches.get()
            await gather(*tasks)
            await self._lease.note(mark)

    def _begin(self, group: TaskGroup, place: str, work: Work) -> Task[None]:
        """Do the work of a place when its earlier work is done."""
        earlier = self._latest.get(place)

        async def take() -> None:
            if earlier is not None:
                await earlier
            names = {"platform": self.platform.name, "place": place}
            await isolated(work(), "place_not_taken", unless=(DatabaseLost, Unavailable), **names)
            if self._latest[place] is task:
                del self._latest[place]

        task = self._latest[place] = group.create_task(take())
        return task
