"""Listening to one account: one process does, in batches from the platform's mark on, and another one follows it."""

import json
from abc import ABC, abstractmethod
from asyncio import (
    Event,
    Future,
    Semaphore,
    TaskGroup,
    create_task,
    get_running_loop,
    shield,
    sleep,
    wait,
    wait_for,
)
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from adapters.api_client import Json
from adapters.base import FIRST_WAIT, Refused, Running, isolated
from adapters.chat.checkpoint import Lease, oldest_missed
from adapters.chat.intake import Intake
from shared.db.database import DatabaseLost
from shared.errors import Unavailable, Undeliverable
from shared.log import get_logger

if TYPE_CHECKING:
    from adapters.chat.posting import PostingPlatform

CLOSE_SECONDS = 5.0
# Events that are taken at once; one that lasts longer does not count.
MOST_EVENTS, EVENT_SECONDS = 20, 1.0
# Of each kind of work beside, and of each place what waits there.
MOST_BESIDE, MOST_CHARS = 20, 256 * 1024
# A refusal is believed after that.
REFUSED_SECONDS = 10.0

Work = Callable[[], Awaitable[object]]

log = get_logger()


@dataclass(eq=False)
class News:
    """What has happened in a place after the mark `since` and up to `now`."""

    since: str
    now: str
    content: Json
    chars: int = 0
    is_taken: Future[None] = field(default_factory=lambda: get_running_loop().create_future())


class Listener(ABC):
    """What listens to an account. The mark moves on when all before it is stored: whoever follows begins there.

    Each place has its own order and keeps no other waiting, however long what happens there takes.
    """

    def __init__(self, platform: "PostingPlatform", account: str) -> None:
        self.platform, self.app, self.account = platform, platform.app, account
        self.intake = Intake(platform)
        self._lease, self._running = Lease(platform.app, platform.name, account), Running()
        # One slot for an event, not for a place: those with few events come between those with many.
        self._slots = Semaphore(MOST_EVENTS)
        # By place, the first of which is being taken; and all of them, the oldest first.
        self._waiting: dict[str, list[News]] = {}
        self._untaken: dict[News, None] = {}
        self._mark, self._has_moved = "", Event()
        self.beside = defaultdict[str, Semaphore](lambda: Semaphore(MOST_BESIDE))
        self._latest: dict[tuple[str, str], Work] = {}

    async def run(self) -> None:
        """Listen until the connection or the lease is lost; while another process listens, wait."""
        try:
            await self._lease.listen(self._listen)
        finally:
            await self._running.settle(CLOSE_SECONDS)

    @abstractmethod
    async def begin(self) -> tuple[str, Mapping[str, Json]]:
        """Read what has to be known before anything is taken; return the mark of now, and news as `read` does."""

    @abstractmethod
    async def read(self, mark: str) -> tuple[str, Mapping[str, Json]]:
        """Read what has happened since this mark; return the mark after it, and the news by place."""

    @abstractmethod
    async def fill(self, place: str, news: News) -> None:
        """Read of the platform what is not in the news of a place, and take it.

        That is tried again while the platform refuses it or does not answer.
        """

    @abstractmethod
    async def take(self, place: str, content: Json) -> None:
        """Take the news of a place."""

    @abstractmethod
    def shorten(self, earlier: Json, later: Json) -> Json | None:
        """Return what stays of the news of a place where too much waits; `fill` reads the rest when it is its turn.

        None: both have to wait as they are.
        """

    def is_busy(self, place: str) -> bool:
        """Return whether earlier news of a place are still to be taken."""
        return place in self._waiting

    async def settle(self) -> None:
        """Return when all is taken that has been read up to now."""
        if self._untaken:
            await wait([news.is_taken for news in self._untaken])

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
            async with self._slots:
                task = create_task(self._finish(take(event, is_late), event_id=event.get("event_id"), **names))
                with suppress(TimeoutError):
                    await wait_for(shield(task), EVENT_SECONDS)
            await shield(task)

    async def _finish(self, work: Awaitable[None], **ids: object) -> None:
        # The end of the connection waits for it: a command counts from its beginning on, and is not run again.
        with self._running.kept():
            await isolated(work, "event_not_taken", unless=(DatabaseLost,), **ids)

    def start(self, work: Awaitable[object], what: str, place: str = "") -> None:
        """Do something beside; a shutdown does not wait for it."""
        self._running.start(isolated(work, f"{what}_failed", platform=self.platform.name, place=place), what)

    def start_latest(self, work: Work, what: str, place: str) -> None:
        """Do something beside, of each kind one thing at a time in a place: the latest when the one before is done."""
        is_running = (what, place) in self._latest
        self._latest[what, place] = work
        if not is_running:
            self.start(self._run_latest(what, place), what, place)

    async def _run_latest(self, what: str, place: str) -> None:
        work = None
        while self._latest[what, place] is not work:
            async with self.beside[what]:
                work = self._latest[what, place]
                await isolated(work(), f"{what}_failed", platform=self.platform.name, place=place)
        del self._latest[what, place]

    async def _listen(self, mark: str | None) -> None:
        now, news = await self.begin()
        if mark is None:
            await self._lease.note(mark := now)
        try:
            async with TaskGroup() as self._group:
                self._group.create_task(self._note_marks(mark))
                self._add_all(mark, mark, news)
                while True:
                    now, news = await self.read(mark)
                    self._add_all(mark, now, news)
                    mark = now
        except ExceptionGroup as errors:
            # What comes of one is that the others end, too.
            raise errors.exceptions[0] from None

    def _add_all(self, since: str, now: str, news: Mapping[str, Json]) -> None:
        for place, content in news.items():
            self._add(place, News(since, now, content))
        self._mark = now
        self._has_moved.set()

    def _add(self, place: str, news: News) -> None:
        """Let news of a place be taken after those before; beyond a limit they wait without what was said."""
        queue = self._waiting.setdefault(place, [])
        if queue:
            news.chars = len(json.dumps(news.content))
        if len(queue) > 1 and sum(earlier.chars for earlier in queue) > MOST_CHARS:
            shorter = self.shorten(queue[-1].content, news.content)
            if shorter is not None:
                queue[-1].content, queue[-1].now = shorter, news.now
                return
        queue.append(news)
        self._untaken[news] = None
        if len(queue) == 1:
            self._group.create_task(self._take(place, queue))

    async def _take(self, place: str, queue: list[News]) -> None:
        while queue:
            await self._fill(place, queue[0])
            work, names = self.take(place, queue[0].content), {"platform": self.platform.name, "place": place}
            await isolated(work, "place_not_taken", unless=(DatabaseLost,), **names)
            news = queue.pop(0)
            del self._untaken[news]
            news.is_taken.set_result(None)
            self._has_moved.set()
        del self._waiting[place]

    async def _fill(self, place: str, news: News) -> None:
        """Fill a gap. One that can't be filled is left, which the operator is told."""
        names = {"platform": self.platform.name, "place": place}
        began, pause = self.app.clock.monotonic(), FIRST_WAIT
        while True:
            try:
                await isolated(self.fill(place, news), "place_not_read", unless=(Unavailable, Undeliverable), **names)
                return
            except DatabaseLost:
                raise
            except (Unavailable, Undeliverable) as error:
                patience = self.platform.patience
                if not isinstance(error, Unavailable):
                    patience = REFUSED_SECONDS if isinstance(error, Refused) else 0.0
                if self.app.clock.monotonic() - began + pause > patience:
                    log.error("place_not_read", cause=str(error), **names)
                    return
            await sleep(pause)
            pause = min(self.platform.longest_wait, pause * 2)

    async def _note_marks(self, last: str) -> None:
        while True:
            await self._has_moved.wait()
            self._has_moved.clear()
            oldest = next(iter(self._untaken), None)
            mark = self._mark if oldest is None else oldest.since
            if mark != last:
                await self._lease.note(last := mark)
