"""Listens to one account by /sync: one process does; the homeserver's mark moves on when all before it is stored."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import uuid4

from adapters.base import Running, isolated
from adapters.chat.checkpoint import oldest_missed
from adapters.matrix.client import Json, Refused
from adapters.matrix.events import Events
from adapters.matrix.incoming import to_sent_at
from adapters.matrix.rooms import Room, Rooms
from adapters.matrix.sending import Sender
from shared.db.database import DatabaseLost
from shared.db.statements import load_statements
from shared.errors import Unavailable
from shared.log import get_logger

statements = load_statements(__file__)
log = get_logger()

LEASE_SECONDS, RENEW_SECONDS, WAIT_SECONDS = 30, 8, 3
POLL_MS, SYNC_SECONDS, FIRST_SYNC_SECONDS, PAGE = 20_000, 60.0, 300.0, 100
CLOSE_SECONDS = 5.0
LAZY = {"lazy_load_members": True}
FILTER = json.dumps({"presence": {"types": []}, "room": {"state": LAZY, "timeline": {"limit": 50, **LAZY}}})
# The state of all rooms, as it is now: what was written is read from the mark on.
NOTHING_WRITTEN: Json = {"room": {"state": LAZY, "timeline": {"limit": 1}}, "presence": {"types": []}}


class Listener:
    """The connection of one account."""

    def __init__(self, sender: Sender, me: str, *, invites: str) -> None:
        self._app, self._client, self._me = sender.app, sender.client, me
        self._holder, self.rooms = uuid4().hex, Rooms()
        self._running, self._was_reset = Running(), asyncio.Event()
        self._events = Events(sender, self.rooms, me, invites=invites, running=self._running)
        self._failure: DatabaseLost | None = None

    async def run(self) -> None:
        """Listen until the connection or the lease is lost; while another process listens, wait."""
        while (row := await self._take_lease()) is None:  # noqa: ASYNC110  # an end of time, which nobody tells
            await asyncio.sleep(WAIT_SECONDS)
        syncing, holding = asyncio.create_task(self._sync(row.sync_token)), asyncio.create_task(self._hold())
        try:
            with self._app.events.failovers.observed(self._begin_again):
                done, _ = await asyncio.wait({syncing, holding}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (syncing, holding):
                task.cancel()
            await asyncio.gather(syncing, holding, return_exceptions=True)
            await self._running.settle(CLOSE_SECONDS)
            with suppress(DatabaseLost):
                await self._execute(statements.release_lease)

    def _begin_again(self, _since: datetime) -> None:
        # The database has lost the mark together with the messages: both are read from the mark that it has.
        self._was_reset.set()

    async def _hold(self) -> None:
        while not self._was_reset.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._was_reset.wait(), RENEW_SECONDS)
            if await self._take_lease() is None:
                raise Unavailable("Another process listens to Matrix.")
        raise Unavailable("The database has lost its last commits.")

    async def _sync(self, token: str | None) -> None:
        begin = await self._client.call(
            "GET", ("sync",), seconds=FIRST_SYNC_SECONDS, filter=json.dumps(NOTHING_WRITTEN), set_presence="online"
        )
        await self._take(begin, since=None)
        if token is None:
            token = str(begin["next_batch"])
            await self._note(token)
        log.info("matrix_listens", account=self._me, rooms=len(self.rooms))
        while True:
            batch = await self._client.call(
                "GET", ("sync",), seconds=SYNC_SECONDS, filter=FILTER, timeout=POLL_MS, since=token
            )
            await self._take(batch, since=token)
            if batch["next_batch"] != token:
                token = str(batch["next_batch"])
                await self._note(token)

    async def _take(self, batch: Json, since: str | None) -> None:
        rooms = batch.get("rooms") or {}
        for room_id, part in (rooms.get("join") or {}).items():
            room, timeline = self.rooms[room_id], part.get("timeline") or {}
            room.note((part.get("state") or {}).get("events") or ())
            room.count(part.get("summary") or {})
            events = list(timeline.get("events") or ())
            if since is None:
                room.note(events)
                continue
            if timeline.get("limited") and timeline.get("prev_batch"):
                events = [event async for event in self._list_gap(room, str(timeline["prev_batch"]), since)][
                    ::-1
                ] + events
            for event in events:
                room.note([event])
                await isolated(self._take_event(room, event), "matrix_event_not_taken", event_id=event.get("event_id"))
                if self._failure is not None:
                    raise self._failure
        for room_id, part in (rooms.get("invite") or {}).items():
            await isolated(self._events.take_invite(room_id, part), "matrix_invite_not_taken", room=room_id)
        for room_id in rooms.get("leave") or {}:
            self.rooms.pop(room_id, None)

    async def _take_event(self, room: Room, event: Json) -> None:
        try:
            if to_sent_at(event) >= oldest_missed(self._app):
                await self._events.take(room, event)
        except DatabaseLost as error:
            # The mark stays where it is, and the next connection reads the event again.
            self._failure = error

    async def _list_gap(self, room: Room, start: str, since: str) -> AsyncIterator[Json]:
        """Yield what a limited timeline has left out, the latest first."""
        path = ("rooms", room.id, "messages")
        while True:
            query: Json = {"from": start, "to": since, "dir": "b", "limit": PAGE}
            try:
                page = await self._client.call("GET", path, **query)
            except Refused as error:
                log.warning("matrix_room_not_read", room=room.id, cause=str(error))
                return
            for event in page.get("chunk") or ():
                if to_sent_at(event) < oldest_missed(self._app):
                    return
                yield event
            if not page.get("end") or page["end"] == start:
                return
            start = str(page["end"])

    async def _take_lease(self) -> Any:
        return await self._execute(statements.take_lease, lease=LEASE_SECONDS)

    async def _note(self, token: str) -> None:
        if await self._execute(statements.note_token, token=token) is None:
            raise Unavailable("Another process listens to Matrix.")

    async def _execute(self, statement: Any, **values: Any) -> Any:
        async with self._app.database.statement() as session:
            result = await session.execute(statement, {"account": self._me, "holder": self._holder} | values)
            return result.one_or_none()
