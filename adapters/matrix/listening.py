"""Listens to one account by /sync: one process does; the homeserver's mark moves on when all before it is stored."""

import json
from typing import TYPE_CHECKING, Any

from adapters.base import isolated
from adapters.chat.checkpoint import Lease, oldest_missed
from adapters.matrix.client import Json, Refused
from adapters.matrix.events import Events
from adapters.matrix.incoming import part, to_sent_at
from adapters.matrix.rooms import NAME, Room
from shared.db.database import DatabaseLost
from shared.log import get_logger

if TYPE_CHECKING:
    from adapters.matrix.platform import MatrixPlatform

log = get_logger()

POLL_MS, SYNC_SECONDS, FIRST_SYNC_SECONDS, PAGE, CLOSE_SECONDS = 20_000, 60.0, 300.0, 100, 5.0
LAZY = {"lazy_load_members": True}
FILTER: Json = {"presence": {"types": []}, "room": {"state": LAZY, "timeline": {"limit": 50, **LAZY}}}
# The state of all rooms, as it is now: what was written is read from the mark on.
NOTHING_WRITTEN: Json = {"presence": {"types": []}, "room": {"state": LAZY, "timeline": {"limit": 1}}}


class Listener:
    """The connection of one account."""

    def __init__(self, platform: "MatrixPlatform", me: str) -> None:
        self._app, self._client, self._lease = platform.app, platform.client, Lease(platform.app, NAME, me)
        self._events = Events(platform, me)
        self._rooms = self._events.rooms

    async def run(self) -> None:
        """Listen until the connection or the lease is lost; while another process listens, wait."""
        try:
            await self._lease.listen(self._sync)
        finally:
            await self._events.running.settle(CLOSE_SECONDS)

    async def _sync(self, mark: str | None) -> None:
        begin = await self._read(NOTHING_WRITTEN, seconds=FIRST_SYNC_SECONDS, set_presence="online")
        for room_id, joined in part(begin, "rooms", "join").items():
            events = [*(part(joined, "state").get("events") or ()), *(part(joined, "timeline").get("events") or ())]
            self._rooms[room_id].note(events, part(joined, "summary"))
        await self._take_invites(begin)
        if mark is None:
            mark = str(begin["next_batch"])
            await self._lease.note(mark)
        log.info("matrix_listens", rooms=len(self._rooms))
        while True:
            batch = await self._read(FILTER, seconds=SYNC_SECONDS, timeout=POLL_MS, since=mark)
            for room_id, joined in part(batch, "rooms", "join").items():
                await self._take(self._rooms[room_id], joined, mark)
            await self._take_invites(batch)
            for room_id in part(batch, "rooms", "leave"):
                self._rooms.pop(room_id, None)
            if batch["next_batch"] != mark:
                mark = str(batch["next_batch"])
                await self._lease.note(mark)

    async def _read(self, what: Json, *, seconds: float, **query: Any) -> Json:
        return await self._client.call("GET", ("sync",), seconds=seconds, filter=json.dumps(what), **query)

    async def _take(self, room: Room, joined: Json, since: str) -> None:
        timeline = part(joined, "timeline")
        room.note(part(joined, "state").get("events") or (), part(joined, "summary"))
        events = list(timeline.get("events") or ())
        if timeline.get("limited") and timeline.get("prev_batch"):
            events = [*await self._read_gap(room, str(timeline["prev_batch"]), since), *events]
        for event in events:
            room.note([event])
            # Where the database is lost, the mark stays, and the next connection reads the event again.
            work, event_id = self._take_event(room, event), event.get("event_id")
            await isolated(work, "matrix_event_not_taken", unless=(DatabaseLost,), event_id=event_id)

    async def _take_event(self, room: Room, event: Json) -> None:
        if to_sent_at(event) >= oldest_missed(self._app):
            await self._events.take(room, event)

    async def _take_invites(self, batch: Json) -> None:
        for room_id, invite in part(batch, "rooms", "invite").items():
            await isolated(self._events.take_invite(room_id, invite), "matrix_invite_not_taken", room=room_id)

    async def _read_gap(self, room: Room, start: str | None, since: str) -> list[Json]:
        """Return what a limited timeline has left out, the oldest first."""
        events: list[Json] = []
        while start:
            query: Json = {"from": start, "to": since, "dir": "b", "limit": PAGE}
            try:
                page = await self._client.call("GET", ("rooms", room.id, "messages"), **query)
            except Refused as error:
                log.warning("matrix_room_not_read", room=room.id, cause=str(error))
                break
            chunk = page.get("chunk") or ()
            events += chunk
            start = page.get("end") if chunk and to_sent_at(chunk[-1]) >= oldest_missed(self._app) else None
        return events[::-1]
