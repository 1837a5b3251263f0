"""Takes up what was not stored: said before a start, lost by a failover, or refused, as for a cell that is away.

Slack repeats what is refused for some minutes. Then messages are read from the history of their workspace; what no
history has is kept in memory.
"""

import asyncio
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse

from adapters.base import FIRST_WAIT, LONGEST_WAIT
from adapters.chat.checkpoint import IN_TRANSIT, LOOK_SECONDS, accept_missed, to_mark
from adapters.slack.bolt import REFUSED
from adapters.slack.events.catch_up import list_missed
from adapters.slack.events.incoming import PLATFORM
from adapters.slack.receivers import is_message
from adapters.slack.sending.sessions import end_suspensions
from adapters.slack.transport.api import Json, Web
from shared.db.database import DatabaseLost, retry_on_lost_db
from shared.errors import ServerMoving
from shared.log import get_logger

if TYPE_CHECKING:
    from adapters.base import Running
    from adapters.slack.receivers import Receivers
    from agent.app import App
    from shared.clock import Clock

# Of a workspace, events of so many bytes wait in memory: thousands.
MOST_BYTES = 8 * 1024 * 1024

log = get_logger()


class Gap(Struct):
    """What of a workspace was refused: messages after the mark `since`, if any were, and other events by their ids.

    `size` is that of the events, in bytes.
    """

    since: str | None = None
    events: dict[str, Json] = field(default_factory=dict)
    size: int = 0

    def hold(self, event_id: str, body: Json) -> bool:
        """Add an event, unless there is no room for it; return whether it is there."""
        size = len(json.dumps(body))
        if event_id not in self.events and self.size + size <= MOST_BYTES:
            self.events[event_id] = body
            self.size += size
        return event_id in self.events

    def remove(self, event_id: str) -> None:
        """Remove an event that was taken up."""
        self.size -= len(json.dumps(self.events.pop(event_id)))


class Missed:
    """Hands requests to the receivers, and takes up later what these have refused.

    A workspace's turn comes as soon as its cell can be reached and it is not on its way.
    """

    def __init__(self, receivers: "Receivers", clock: "Clock", running: "Running", *, seconds: float) -> None:
        self._receivers, self._clock, self._running, self._seconds = receivers, clock, running, seconds
        self._gaps: dict[str, Gap] = {}
        # The workspaces whose gaps have a task.
        self._closing: set[str] = set()
        # After which marks messages may not be stored yet: of whoever stores or reads them, and by cell after a start.
        self._marks: dict[object, str] = {}
        self._unread: dict[str, str] = {}

    async def async_dispatch(self, request: AsyncBoltRequest) -> BoltResponse:
        """Handle a request; the library calls this method of its own apps."""
        mark = to_mark(self._clock.now() - IN_TRANSIT)
        with self._held(mark):
            response = await self._receivers.async_dispatch(request)
            team, body = request.context.team_id, request.body
            if response.status == REFUSED and team is not None and "event" in body:
                self._note_event(team, mark, body)
        return response

    def find_oldest(self) -> str | None:
        """Return the time after which messages may not be stored yet, as a mark; None: all are."""
        gaps = [gap.since for gap in self._gaps.values() if gap.since is not None]
        return min([*self._marks.values(), *self._unread.values(), *gaps], key=float, default=None)

    def watch(self, since: str | None) -> "asyncio.Future[Any]":
        """Catch up in each cell on what was missed since this mark, and after a failover, until cancelled."""
        names = self._receivers.names
        if since is not None:
            self._unread = {name: min(since, self._unread.get(name, since), key=float) for name in names}
        # Those of an earlier connection have ended with it.
        self._closing.clear()
        for team in self._gaps:
            self._close(team)
        return asyncio.gather(*map(self._watch, names))

    async def _watch(self, name: str) -> None:
        while (receiver := self._receivers.find_in(name)) is None:  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(LOOK_SECONDS)
        app = receiver.app

        def catch_up(moment: datetime) -> None:
            self._running.start(self._catch_up(app, to_mark(moment)), "catch-up")

        if name in self._unread:
            self._running.start(self._read_unread(app, name), "catch-up")
        with app.events.failovers.observed(catch_up):
            await end_suspensions(app, receiver.clients)

    async def _read_unread(self, app: "App", name: str) -> None:
        await self._catch_up(app, self._unread[name])
        self._unread.pop(name, None)

    async def _catch_up(self, app: "App", since: str, team: str | None = None) -> None:
        """Read what was said after this mark, in one workspace or all."""

        async def read() -> None:
            missed = list_missed(app, partial(self._find_web, since), since, team=team, seconds=self._seconds)
            await accept_missed(PLATFORM, missed, partial(self._accept, since))

        with self._held(since):
            await retry_on_lost_db(read, math.inf)

    @contextmanager
    def _held(self, mark: str) -> Iterator[None]:
        """Count messages after a mark as missing while the block runs."""
        key = object()
        self._marks[key] = mark
        try:
            yield
        finally:
            del self._marks[key]

    async def _find_web(self, since: str, team: str | None) -> Web | None:
        try:
            return await self._receivers.find_web(team)
        except DatabaseLost:
            if team is None:
                raise
            self._note(team, since)
            return None

    async def _accept(self, since: str, missed: tuple[Json, Web]) -> None:
        event, web = missed
        team = web.token.team_id
        gap = self._gaps.get(team)
        if gap is None or gap.since is None:
            try:
                await self._receivers.use(team, lambda receiver: receiver.events.accept(event, web))
                return
            except (DatabaseLost, ServerMoving):
                pass
        # It is read again, with all that comes after it.
        self._note(team, since)

    def _note_event(self, team: str, mark: str, body: Json) -> None:
        if is_message(body) and body["event"].get("subtype") not in ("message_changed", "message_deleted"):
            self._note(team, mark)
            return
        if not self._gaps.setdefault(team, Gap()).hold(str(body.get("event_id")), body):
            log.error("slack_event_lost", team=team, event_id=body.get("event_id"), cause="too many wait for its cell")
        self._close(team)

    def _note(self, team: str, since: str) -> None:
        gap = self._gaps.setdefault(team, Gap())
        gap.since = min(since, gap.since or since, key=float)
        self._close(team)

    def _close(self, team: str) -> None:
        if team not in self._closing:
            self._closing.add(team)
            log.warning("slack_workspace_waits", team=team)
            self._running.start(self._close_gap(team), "refused events")

    async def _close_gap(self, team: str) -> None:
        wait = FIRST_WAIT
        try:
            while (gap := self._gaps.get(team)) is not None:
                await asyncio.sleep(wait)
                if (app := await self._receivers.find_home(team)) is None:
                    continue
                await self._take_up(app, team, gap)
                if gap == Gap():
                    self._gaps.pop(team, None)
                wait = min(LONGEST_WAIT, wait * 2)
        finally:
            self._closing.discard(team)

    async def _take_up(self, app: "App", team: str, gap: Gap) -> None:
        since, gap.since = gap.since, None
        if since is not None:
            try:
                await self._catch_up(app, since, team)
            except asyncio.CancelledError:
                # Whoever listens next goes on.
                gap.since = since
                raise
        # Behind the messages to which they refer.
        for event_id, body in list(gap.events.items()):
            request = AsyncBoltRequest(mode="socket_mode", body=body)
            if (await self._receivers.async_dispatch(request)).status == REFUSED:
                return
            gap.remove(event_id)
