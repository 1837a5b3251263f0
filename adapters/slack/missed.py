"""Takes up what was not stored: said before a start, lost by a failover, or refused, as for a cell that is away.

Slack repeats what is refused for some minutes. Then messages are read from the history of the places where they were
said; what no history has is kept in memory.
"""

import asyncio
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from msgspec import Struct, field
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse

from adapters.base import FIRST_WAIT, LONGEST_WAIT, isolated
from adapters.chat.checkpoint import IN_TRANSIT, LOOK_SECONDS, oldest_missed, to_mark
from adapters.slack.bolt import REFUSED
from adapters.slack.events.catch_up import Unread, list_places, list_teams, read_pages, to_unread
from adapters.slack.events.events import REPEATED, TS
from adapters.slack.events.incoming import PLATFORM
from adapters.slack.receivers import is_message
from adapters.slack.sending.sessions import end_suspensions
from adapters.slack.transport.api import Json, Web
from shared.db.database import DatabaseLost, retry_on_lost_db
from shared.errors import ServerMoving, Unavailable
from shared.log import get_logger

if TYPE_CHECKING:
    from adapters.base import Running
    from adapters.slack.receivers import Receiver, Receivers
    from agent.app import App
    from shared.clock import Clock

# Of a workspace, events of so many bytes wait in memory, and so many places to read; beyond them all of its places are.
MOST_BYTES, MOST_PLACES = 8 * 1024 * 1024, 5000
# Events of all workspaces together.
MOST_BYTES_IN_ALL = 64 * 1024 * 1024
# So long a message waits for what was said before it: Slack waits for three seconds.
ORDER_SECONDS = 2.0
# Reading ends after this time: what somebody wrote is answered soon or, as people have gone on, not at all.
READ_SECONDS = 3600.0

log = get_logger()


class Gap(Struct):
    """What of a workspace is not stored: messages after a mark by their place, and other events, as JSON, by their ids.

    The place None is all of the workspace's; `size` is that of the events.
    """

    places: dict[Unread | None, str] = field(default_factory=dict)
    events: dict[str, str] = field(default_factory=dict)
    size: int = 0

    def hold(self, event_id: str, text: str, room: int) -> bool:
        """Add an event, unless there is no room for it; return whether it is there."""
        if event_id not in self.events and len(text) <= min(room, MOST_BYTES - self.size):
            self.events[event_id] = text
            self.size += len(text)
        return event_id in self.events

    def remove(self, event_id: str) -> None:
        """Remove an event that was taken up."""
        self.size -= len(self.events.pop(event_id))

    def note(self, place: Unread | None, since: str) -> None:
        """Note that messages of a place are to be read."""
        self.places[place] = min(since, self.places.get(place, since), key=float)


class Missed:
    """Hands requests to the receivers, and takes up later what these have refused.

    A workspace's turn comes as soon as its cell can be reached and it is not on its way; none waits for another.
    """

    def __init__(self, receivers: "Receivers", clock: "Clock", running: "Running", *, seconds: float) -> None:
        self._receivers, self._clock, self._running, self._seconds = receivers, clock, running, seconds
        self._gaps: dict[str, Gap] = {}
        # By workspace, whether what took its gap up has ended.
        self._has_ended: dict[str, Callable[[], bool]] = {}
        # After which marks messages may not be stored yet: of whoever stores or reads them, and by cell after a start.
        self._marks: dict[object, str] = {}
        self._unread: dict[str, str] = {}
        # One reads a place, and whoever writes there waits for that.
        self._locks: WeakValueDictionary[tuple[str, Unread], asyncio.Lock] = WeakValueDictionary()

    async def async_dispatch(self, request: AsyncBoltRequest) -> BoltResponse:
        """Handle a request; the library calls this method of its own apps."""
        mark = to_mark(self._clock.now() - IN_TRANSIT)
        team, body = request.context.team_id, request.body
        with self._held(mark):
            if team in self._gaps and is_in_history(body):
                await self._wait_for_turn(team, to_unread(body["event"]))
            response = await self._receivers.async_dispatch(request)
            if response.status == REFUSED and team is not None and "event" in body:
                self._note_event(team, mark, body)
        return response

    def find_oldest(self) -> str | None:
        """Return the time after which messages may not be stored yet, as a mark; None: all are."""
        gaps = [since for gap in self._gaps.values() for since in gap.places.values()]
        return min([*self._marks.values(), *self._unread.values(), *gaps], key=float, default=None)

    def watch(self, since: str | None) -> "asyncio.Future[Any]":
        """Catch up in each cell on what was missed since this mark, and after a failover, until cancelled."""
        for team in self._gaps:
            self._close(team)
        self.catch_up(*self._unread.values(), *([] if since is None else [since]))
        return asyncio.gather(*map(self._watch, self._receivers.names))

    def catch_up(self, *marks: str) -> None:
        """Catch up in each cell, as soon as it is there, on what was missed since the earliest of these marks."""
        for name in self._receivers.names if marks else ():
            self._unread[name] = min([*marks, self._unread.get(name, marks[0])], key=float)
            self._running.start(self._note_unread(name), "catch-up")

    async def _watch(self, name: str) -> None:
        receiver = await self._wait_for(name)

        def catch_up(moment: datetime) -> None:
            self._running.start(self._note_all(receiver.app, to_mark(moment)), "catch-up")

        with receiver.app.events.failovers.observed(catch_up):
            await end_suspensions(receiver.app, receiver.clients)

    async def _note_unread(self, name: str) -> None:
        receiver = await self._wait_for(name)
        if (since := self._unread.get(name)) is not None:
            await self._note_all(receiver.app, since)
            if self._unread.get(name) == since:
                del self._unread[name]

    async def _wait_for(self, name: str) -> "Receiver":
        while (receiver := self._receivers.find_in(name)) is None:  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(LOOK_SECONDS)
        return receiver

    async def _note_all(self, app: "App", since: str) -> None:
        """Note that what was said after this mark is to be read in all workspaces of a cell."""
        with self._held(since):
            for team in await retry_on_lost_db(partial(list_teams, app), math.inf):
                self._note(team, None, since)

    @contextmanager
    def _held(self, mark: str) -> Iterator[None]:
        """Count messages after a mark as missing while the block runs."""
        key = object()
        self._marks[key] = mark
        try:
            yield
        finally:
            del self._marks[key]

    def _note_event(self, team: str, mark: str, body: Json) -> None:
        event = body["event"]
        if is_in_history(body):
            # Whether it is late, or Slack's clock is behind this one.
            self._note(team, to_unread(event), min(mark, f"{max(0.0, float(event['ts']) - 1):.6f}", key=float))
            return
        gap, event_id = self._gaps.setdefault(team, Gap()), str(body.get("event_id"))
        room = MOST_BYTES_IN_ALL - sum(other.size for other in self._gaps.values())
        if not gap.hold(event_id, json.dumps(body), room):
            log.error("slack_event_lost", team=team, event_id=event_id, cause="too many wait for its cell")
        self._close(team)

    async def _wait_for_turn(self, team: str, place: Unread) -> None:
        with suppress(TimeoutError, Unavailable):
            async with asyncio.timeout(ORDER_SECONDS):
                await self._read_place(team, place)

    async def _read_place(self, team: str, place: Unread) -> None:
        """Read what was said in a place, unless it was read meanwhile."""
        async with self._locked(team, place):
            if (gap := self._gaps.get(team)) is not None and place in gap.places:
                await self._read(await self._receivers.find_home(team), team, gap, place=place)

    def _locked(self, team: str, place: Unread) -> asyncio.Lock:
        return self._locks.setdefault((team, place), asyncio.Lock())

    def _note(self, team: str, place: Unread | None, since: str) -> None:
        gap = self._gaps.setdefault(team, Gap())
        is_known = place in gap.places or len(gap.places) < MOST_PLACES
        gap.note(place if is_known else None, since)
        self._close(team)

    def _close(self, team: str) -> None:
        if (has_ended := self._has_ended.get(team)) is None or has_ended():
            self._has_ended[team] = self._running.start(self._close_gap(team), "refused events")

    async def _close_gap(self, team: str) -> None:
        wait, gap, is_told = FIRST_WAIT, self._gaps[team], False
        while gap != Gap():
            await asyncio.sleep(wait)
            try:
                await self._read_places(await self._receivers.find_home(team), team, gap)
            except (DatabaseLost, ServerMoving) as error:
                if not is_told:
                    log.warning("slack_workspace_waits", team=team, cause=str(error.__cause__ or error))
                wait, is_told = FIRST_WAIT, True
                continue
            wait = min(LONGEST_WAIT, wait * 2)
            # Behind the messages to which they refer.
            for event_id, text in list(gap.events.items()):
                request = AsyncBoltRequest(mode="socket_mode", body=json.loads(text), headers={REPEATED: "1"})
                if (await self._receivers.async_dispatch(request)).status != REFUSED:
                    gap.remove(event_id)
        del self._gaps[team], self._has_ended[team]

    async def _read_places(self, app: "App", team: str, gap: Gap) -> None:
        """Read all places, at the pace of Slack's rate limits; one that can't be read is read again after the others.

        Raises `DatabaseLost`, `ServerMoving`.
        """
        until, wait = self._clock.monotonic() + self._seconds, FIRST_WAIT
        while gap.places:
            if self._clock.monotonic() > until:
                in_threads = sum(place is not None and place.thread is not None for place in gap.places)
                channels = len(gap.places) - in_threads
                log.warning("slack_places_not_read", team=team, channels=channels, threads=in_threads)
                gap.places.clear()
                return
            place = next(iter(gap.places))
            reading = self._read_all(app, team, gap) if place is None else self._read_place(team, place)
            await isolated(reading, "slack_place_not_read", unless=(DatabaseLost, ServerMoving), team=team)
            if place in gap.places:
                await asyncio.sleep(wait)
            wait = min(LONGEST_WAIT, wait * 2) if place in gap.places else FIRST_WAIT

    async def _read_all(self, app: "App", team: str, gap: Gap) -> None:
        places = await list_places(app, team)
        since = gap.places.pop(None)
        for place in places:
            gap.note(place, since)

    async def _read(self, app: "App", team: str, gap: Gap, *, place: Unread) -> None:
        """Accept the messages of a place; unless all are, or can't be for another reason, it is to be read again."""
        since, is_read = gap.places.pop(place), False
        try:
            with self._held(since):
                oldest = max(since, to_mark(oldest_missed(app)), key=float)
                await self._accept_all(team, place, gap, oldest=oldest)
            is_read = True
        except (DatabaseLost, ServerMoving):
            raise
        except Unavailable as error:
            log.warning("slack_channel_not_read", team=team, channel=place.channel, cause=str(error))
        finally:
            if not is_read:
                gap.note(place, since)

    async def _accept_all(self, team: str, place: Unread, gap: Gap, *, oldest: str) -> None:
        web, count = await self._receivers.find_web(team), 0
        if web is None:
            return
        async for page in read_pages(web, place, oldest):
            for event in page:
                accepting = self._receivers.use(team, partial(_accept, event=event, web=web))
                await isolated(accepting, "missed_message_not_accepted", unless=(Unavailable,), team=team)
                if place.thread is None and str(event.get("latest_reply", "")) > oldest:
                    gap.note(Unread(place.channel, event["ts"], is_direct=place.is_direct), oldest)
            count += len(page)
        if count:
            log.info("caught_up", platform=PLATFORM, team=team, messages=count)


def is_in_history(body: Json) -> bool:
    """Return whether a request tells of a message that a history shows."""
    event = body["event"] if is_message(body) else {}
    is_new = bool(event) and event.get("subtype") not in ("message_changed", "message_deleted")
    return is_new and isinstance(event.get("channel"), str) and bool(TS.fullmatch(str(event.get("ts"))))


async def _accept(receiver: "Receiver", event: Json, web: Web) -> None:
    await receiver.events.accept(event, web)
