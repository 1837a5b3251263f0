"""Listens to one account by /sync: one process does; the homeserver's mark moves on when all before it is stored."""

import json
from contextlib import suppress
from dataclasses import replace
from secrets import randbelow
from typing import Any

from adapters.api_client import Json
from adapters.base import Running, isolated
from adapters.chat.addressing import Addressing
from adapters.chat.checkpoint import Lease, oldest_missed
from adapters.chat.intake import Intake
from adapters.chat.posting import PostingPlatform, press
from adapters.matrix.client import Client, Refused
from adapters.matrix.incoming import NAME, Room, Rooms, find_replied_to, part, to_addressing, to_incoming, to_sent_at
from shared.db.database import DatabaseLost
from shared.db.statements import load_statements
from shared.errors import ParleyError, Unavailable
from shared.log import get_logger
from shared.messages import IncomingMessage

statements = load_statements(__file__)
log = get_logger()

POLL_MS, SYNC_SECONDS, FIRST_SYNC_SECONDS, PAGE, CLOSE_SECONDS = 20_000, 60.0, 300.0, 100, 5.0
# Of one room: whoever floods it while nobody listens fills no memory.
MOST_MISSED = 5000
LAZY = {"lazy_load_members": True}
FILTER: Json = {"presence": {"types": []}, "room": {"state": LAZY, "timeline": {"limit": 50, **LAZY}}}
# The state of all rooms, as it is now: what was written is read from the mark on.
NOTHING_WRITTEN: Json = {"presence": {"types": []}, "room": {"state": LAZY, "timeline": {"limit": 1}}}
ENCRYPTED_ROOM = "This room is encrypted, and I can't read it; please invite me to a room without encryption."
ENCRYPTED_FILE = "I can't read an encrypted file; please send it without encryption."


class Listener:
    """The connection of one account."""

    def __init__(self, platform: PostingPlatform, client: Client, me: str, *, invites: str) -> None:
        self._platform, self._client, self._me, self._invites = platform, client, me, invites
        self._lease, self._intake = Lease(platform.app, NAME, me), Intake(platform)
        self._rooms, self._running = Rooms(), Running()
        self._takers = {
            "m.room.message": self._message,
            "m.room.redaction": self._redact,
            "m.reaction": self._react,
            "m.room.encrypted": self._refuse_room,
            "m.room.tombstone": self._follow,
        }

    async def run(self) -> None:
        """Listen until the connection or the lease is lost; while another process listens, wait."""
        try:
            await self._lease.listen(self._sync)
        finally:
            await self._running.settle(CLOSE_SECONDS)

    async def _sync(self, mark: str | None) -> None:
        # Synapse answers equal requests from a cache for two minutes; the timeout, which has no effect here, differs.
        query: Json = {"set_presence": "online", "timeout": randbelow(10**9)}
        begin = await self._read(NOTHING_WRITTEN, seconds=FIRST_SYNC_SECONDS, **query)
        for room_id, joined in part(begin, "rooms", "join").items():
            events = [*(part(joined, "state").get("events") or ()), *(part(joined, "timeline").get("events") or ())]
            self._rooms[room_id].note(events, part(joined, "summary"))
        # Beside: to come into a room takes its time where another server is slow, or where there are a thousand.
        self._running.start(self._take_invites(begin), "invitations")
        if mark is None:
            mark = str(begin["next_batch"])
            await self._lease.note(mark)
        log.info("matrix_listens", rooms=len(self._rooms))
        while True:
            # A time of its own: what the cache has of the process before ends where that one hung up.
            timeout = POLL_MS - randbelow(POLL_MS // 2)
            batch = await self._read(FILTER, seconds=SYNC_SECONDS, timeout=timeout, since=mark)
            for room_id, joined in part(batch, "rooms", "join").items():
                work = self._take(self._rooms[room_id], joined, mark)
                await isolated(work, "matrix_room_not_taken", unless=(DatabaseLost, Unavailable), room=room_id)
            self._running.start(self._take_invites(batch), "invitations")
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
        leaving = [event for event in events if part(event, "content").get("membership") in ("leave", "ban")]
        # They could read what was written before: none of this was said between two alone.
        room.people += len(leaving)
        for event in events:
            room.note([event])
            # Where the database is lost, the mark stays, and the next connection reads the event again.
            work, event_id = self._take_event(room, event), event.get("event_id")
            await isolated(work, "matrix_event_not_taken", unless=(DatabaseLost,), event_id=event_id)
        room.people -= len(leaving)

    async def _take_event(self, room: Room, event: Json) -> None:
        is_own, is_old = event["sender"] == self._me, to_sent_at(event) < oldest_missed(self._platform.app)
        taker = self._takers.get(str(event.get("type")))
        if taker is not None and not (is_own or is_old):
            await taker(room, event)

    async def _take_invites(self, batch: Json) -> None:
        for room_id, invite in part(batch, "rooms", "invite").items():
            await isolated(self._take_invite(room_id, invite), "matrix_invite_not_taken", room=room_id)

    async def _read_gap(self, room: Room, start: str | None, since: str) -> list[Json]:
        """Return what a limited timeline has left out, the oldest first."""
        events: list[Json] = []
        while start and len(events) < MOST_MISSED:
            query: Json = {"from": start, "to": since, "dir": "b", "limit": PAGE}
            try:
                page = await self._client.call("GET", ("rooms", room.id, "messages"), **query)
            except Refused as error:
                log.warning("matrix_room_not_read", room=room.id, cause=str(error))
                break
            chunk = page.get("chunk") or ()
            events += chunk
            start = page.get("end") if chunk and to_sent_at(chunk[-1]) >= oldest_missed(self._platform.app) else None
        return events[::-1]

    async def _take_invite(self, room_id: str, invite: Json) -> None:
        """Accept an invitation, if whoever invites may; else decline it."""
        events = part(invite, "invite_state").get("events") or ()
        own = [event for event in events if event.get("state_key") == self._me and event["type"] == "m.room.member"]
        accounts = {str(event["sender"]) for event in own}
        # The inviting server adds to the events what it likes: of two who invite, one is a lie.
        account = accounts.pop() if len(accounts) == 1 else ""
        names = {name.strip() for name in self._invites.split(",")}
        is_welcome = bool(account) and not names.isdisjoint({"all", account, f"*:{account.partition(':')[2]}"})
        if account and not is_welcome and "admins" in names:
            async with self._platform.app.database.statement() as session:
                is_welcome = bool((await session.execute(statements.is_admin, {"account": account})).scalar_one())
        await self._client.call("POST", ("rooms", room_id, "join" if is_welcome else "leave"), {})
        if is_welcome and part(own[0], "content").get("is_direct"):
            await self._client.note_direct(account, room_id)
        log.info("matrix_invited", room=room_id, account=account, is_accepted=is_welcome)

    async def _message(self, room: Room, event: Json) -> None:
        content = part(event, "content")
        relation, new = part(content, "m.relates_to"), part(content, "m.new_content")
        if relation.get("rel_type") == "m.replace":
            await self._edit(room, event | {"event_id": str(relation.get("event_id"))}, new)
            return
        message = self._to_message(room, event)
        if content.get("msgtype") == "m.notice":
            # Those of bots, which are read and not answered.
            self._intake.remember(message)
            return
        addressing = await self._to_addressing(room, event, message)
        refusal = ENCRYPTED_FILE if "file" in content else None
        if await self._intake.take(message, addressing, question_thread=message.event_id, refusal=refusal):
            self._running.start(self._mark_read(room.id, message.event_id), "read mark")

    async def _edit(self, room: Room, event: Json, new: Json) -> None:
        # Anybody can send an edit of another's message: it is the author's own, in this room, or none.
        original = await self._client.find_event(room.id, event["event_id"])
        if original is None or original.get("sender") != event["sender"] or new.get("msgtype") in (None, "m.notice"):
            return
        edited = event | {"content": new | {"m.relates_to": part(original, "content", "m.relates_to")}}
        message = self._to_message(room, edited)
        addressing = await self._to_addressing(room, edited, message)
        await self._intake.edit(message, addressing, self._platform.offer_again)

    async def _redact(self, room: Room, event: Json) -> None:
        event_id = str(part(event, "content").get("redacts") or event.get("redacts"))
        # Another server may send a redaction that counts for nothing: the homeserver says what is gone.
        redacted = await self._client.find_event(room.id, event_id)
        if "redacted_because" in part(redacted, "unsigned"):
            await self._intake.delete(room.id, [event_id])

    async def _react(self, room: Room, event: Json) -> None:
        relation = part(event, "content", "m.relates_to")
        reaction = replace(self._to_message(room, event), platform_message_id=str(relation.get("event_id")))
        await press(self._platform, reaction, str(relation.get("key")))

    async def _refuse_room(self, room: Room, event: Json) -> None:
        name = f"encrypted {room.id}"
        message = replace(self._to_message(room, event), event_id=name, platform_message_id=name)
        await self._intake.say(message, ENCRYPTED_ROOM, is_once=True)

    async def _follow(self, room: Room, event: Json) -> None:
        # State: a mere message of this kind can be sent by every member, to lead the agent anywhere.
        successor = str(part(event, "content").get("replacement_room"))
        if event.get("state_key") == "" and successor.startswith("!"):
            server = str(event["sender"]).partition(":")[2]
            work = self._client.call("POST", ("join", successor), {}, server_name=server)
            self._running.start(isolated(work, "matrix_room_not_followed", room=room.id), "successor")

    def _to_message(self, room: Room, event: Json) -> IncomingMessage:
        return to_incoming(event, room, self._rooms, me=self._me, homeserver=self._client.homeserver)

    async def _to_addressing(self, room: Room, event: Json, message: IncomingMessage) -> Addressing:
        replied_to = None if message.place.is_direct else find_replied_to(event)
        replied = await self._client.find_event(room.id, replied_to) if replied_to else None
        return to_addressing(event, message, self._me, replied_account=str(replied["sender"]) if replied else None)

    async def _mark_read(self, room_id: str, event_id: str) -> None:
        with suppress(ParleyError):
            await self._client.call("POST", ("rooms", room_id, "receipt", "m.read", event_id), {})
