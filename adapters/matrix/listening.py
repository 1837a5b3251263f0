"""Listens to one account by /sync."""

import json
from asyncio import Lock
from collections import defaultdict
from collections.abc import AsyncIterator, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from secrets import randbelow
from typing import Any

from adapters.api_client import Json, part
from adapters.base import STORE_SECONDS, Refused, isolated
from adapters.chat.account.invitations import Invitations
from adapters.chat.account.listening import Listener, Work
from adapters.chat.account.profiles import Profiles
from adapters.chat.posting import PostingPlatform, press
from adapters.matrix.client import PROFILE, Client
from adapters.matrix.incoming import (
    ADMIN,
    NAME,
    Room,
    Rooms,
    find_replied_to,
    is_leaving,
    is_redacted,
    to_addressing,
    to_events,
    to_incoming,
    to_sent_at,
)
from shared.db.database import DatabaseLost
from shared.db.statements import load_statements
from shared.errors import ParleyError, Unavailable, Undeliverable
from shared.log import get_logger

statements = load_statements(__file__)
log = get_logger()

POLL_MS, SYNC_SECONDS, FIRST_SYNC_SECONDS = 20_000, 60.0, 300.0
# Of the events of a room that were missed; no honest homeserver has so many pages.
PAGE, MOST_PAGES = 500, 200
LAZY = {"lazy_load_members": True}
FILTER: Json = {"presence": {"types": []}, "room": {"state": LAZY, "timeline": {"limit": 50, **LAZY}}}
# The state of all rooms, as it is now: what was written is read from the mark on.
NOTHING_WRITTEN: Json = {"presence": {"types": []}, "room": {"state": LAZY, "timeline": {"limit": 1}}}
ENCRYPTED_ROOM = "This room is encrypted, and I can't read it; please invite me to a room without encryption."
ENCRYPTED_FILE = "I can't read an encrypted file; please send it without encryption."


class MatrixListener(Listener):
    """The connection of one account."""

    def __init__(self, platform: PostingPlatform, client: Client, *, invites: str) -> None:
        super().__init__(platform, client.account)
        self._client, self._rooms = client, Rooms(client.account, client.address)
        self._invitations = Invitations(self.app.database, NAME, invites)
        self._profiles = Profiles(
            self.app, (NAME, client.account), upload=client.upload, set_profile=client.set_profile
        )
        # By the room that has ended.
        self._joining = defaultdict[str, Lock](Lock)
        self._takers = {
            "m.room.message": self._message,
            "m.room.redaction": self._redact,
            "m.reaction": self._react,
            "m.room.encrypted": self._refuse_room,
            "m.room.tombstone": self._follow,
        }

    async def begin(self) -> str:
        """Read the state of all rooms."""
        # Synapse answers equal requests from a cache for two minutes; the timeout, which has no effect here, differs.
        query: Json = {"set_presence": "online", "timeout": randbelow(10**9)}
        batch = await self._sync(NOTHING_WRITTEN, seconds=FIRST_SYNC_SECONDS, **query)
        self._rooms.note(part(batch, "rooms", "join"))
        for room in list(self._rooms.values()):
            await isolated(self._stays(room), "matrix_room_not_taken", unless=(DatabaseLost, Unavailable), room=room.id)
        # Beside: to come into a room takes its time where another server is slow, or where there are a thousand.
        self.start(self._take_invites(batch), "invitations")
        log.info("matrix_listens", rooms=len(self._rooms))
        return str(batch["next_batch"])

    async def read(self, mark: str) -> tuple[str, Mapping[str, Work]]:
        """Read the events of all rooms since the mark."""
        # A time of its own: what the cache has of the process before ends where that one hung up.
        timeout = POLL_MS - randbelow(POLL_MS // 2)
        batch = await self._sync(FILTER, seconds=SYNC_SECONDS, timeout=timeout, since=mark)
        now, joined = str(batch["next_batch"]), part(batch, "rooms", "join")
        # Where earlier events are still to be taken, what holds after these is not noted yet.
        new = self._rooms.note({room_id: joined[room_id] for room_id in joined if not self.is_busy(room_id)})
        gap = {"from": mark, "to": now}
        works: dict[str, Work] = {
            room_id: partial(self._take_room, room_id, joined[room_id], gap, is_new=room_id in new)
            for room_id in joined
        }
        self.start(self._take_invites(batch), "invitations")
        return now, works | {room_id: partial(self._forget, room_id) for room_id in part(batch, "rooms", "leave")}

    async def _sync(self, what: Json, *, seconds: float, **query: Any) -> Json:
        return await self._client.call("GET", ("sync",), seconds=seconds, filter=json.dumps(what), **query)

    async def _take_room(self, room_id: str, joined: Json, gap: Json, *, is_new: bool) -> None:
        """Take what has happened in a room; where the homeserver leaves some out, the `gap` is read."""
        is_new = room_id in self._rooms.note({room_id: joined}) or is_new
        room = self._rooms[room_id]
        if room.is_left:
            await self._leave(room)
        if room.is_left or (is_new and not await self._stays(room)):
            return
        events, people = to_events(joined, "timeline"), room.people
        # Who left could read what was written before: none of this was said between two alone.
        room.people += sum(map(is_leaving, events))
        if part(joined, "timeline").get("limited") is True:
            await self._take_gap(room, gap, {event.get("event_id") for event in events})
            # A room is read by how deep its events are, which their servers say: what came last may not hold.
            room.note(to_events(joined, "state"))
        await self._take_events(room, events)
        room.people = people

    async def _take_gap(self, room: Room, gap: Json, known: Container[object]) -> None:
        """Take what is not `known` of a gap; where it can't be read who has left meanwhile, nothing."""
        try:
            async for page in self._read_pages(room, gap, types=["m.room.member"]):
                room.people += sum(map(is_leaving, page))
            async for page in self._read_pages(room, gap):
                await self._take_events(room, [event for event in page if event.get("event_id") not in known])
        except Refused as error:
            log.warning("matrix_room_not_read", room=room.id, cause=str(error))

    async def _read_pages(self, room: Room, gap: Json, **what: Any) -> AsyncIterator[list[Json]]:
        """Yield what has happened in a room, the oldest first."""
        query: Json = {"dir": "f", "limit": PAGE, "filter": json.dumps(what)} | gap
        read = set[str | None]()
        # Where nothing follows, there are homeservers that name a page again.
        while query["from"] not in {None, *read}:
            if len(read) == MOST_PAGES:
                raise Refused("", f"its history has no end; what comes after {MOST_PAGES * PAGE} events is left out")
            read.add(query["from"])
            async with self.slots:
                page = await self._client.call("GET", ("rooms", room.id, "messages"), **query)
            yield page.get("chunk") or []
            query["from"] = page.get("end")

    async def _forget(self, room_id: str) -> None:
        self._rooms.pop(room_id, None)

    async def _take_events(self, room: Room, events: Sequence[Json]) -> None:
        await self.take_all(events, partial(self._take_event, room), to_sent_at=to_sent_at, place=room.id)

    async def _take_event(self, room: Room, event: Json, is_late: bool) -> None:
        room.note([event])
        taker = self._takers.get(str(event.get("type")))
        if taker is not None and event["sender"] != self.account and not (is_late or room.is_left):
            await taker(room, event)

    async def _take_invites(self, batch: Json) -> None:
        strangers = dict[str, str]()
        for room_id, invite in part(batch, "rooms", "invite").items():
            await isolated(self._take_invite(room_id, invite, strangers), "matrix_invite_not_taken", room=room_id)
        if strangers:
            # The end of a room may still be to be taken.
            await self.settle()
        for room_id, account in strangers.items():
            await isolated(self._take_strangers_invite(room_id, account), "matrix_invite_not_taken", room=room_id)

    async def _take_invite(self, room_id: str, invite: Json, strangers: dict[str, str]) -> None:
        """Accept an invitation, if whoever invites may; else note who it is."""
        own = [event for event in to_events(invite, "invite_state") if event.get("state_key") == self.account]
        accounts = {str(event["sender"]) for event in own if event.get("type") == "m.room.member"}
        # The inviting server adds to the events what it likes: of two who invite, one is a lie.
        account = accounts.pop() if len(accounts) == 1 else ""
        if not account or not await self._invitations.is_welcome(account):
            strangers[room_id] = account
            return
        await self._join(room_id, None)
        if part(own[0], "content").get("is_direct"):
            await self._client.note_direct(account, room_id)
        log.info("matrix_invited", room=room_id, account=account, is_welcome=True)

    async def _take_strangers_invite(self, room_id: str, account: str) -> None:
        # Clients invite all to the successor of a room: whether it is one is seen inside.
        old = [room for room in self._rooms.values() if room.get("m.room.tombstone", "replacement_room") == room_id]
        if old:
            await self._join(room_id, old[0])
        else:
            await self._client.call("POST", ("rooms", room_id, "leave"), {})
        log.info("matrix_invited", room=room_id, account=account, is_welcome=False)

    async def _join(self, room_id: str, led_from: Room | None, **query: Any) -> None:
        """Join a room; that a stranger has led the agent there from another one is noted in it."""
        await self._client.call("POST", ("join", room_id), {} if led_from is None else {"reason": led_from.id}, **query)

    async def _message(self, room: Room, event: Json) -> None:
        content = part(event, "content")
        relation = part(content, "m.relates_to")
        is_edit = relation.get("rel_type") == "m.replace"
        if is_edit:
            # Anybody can send an edit of another's message: it is the author's own, in this room, or none.
            original = await self._look_up(room, relation.get("event_id"))
            # What was deleted is no question any more, though its edits still have the text.
            if original.get("sender") != event["sender"] or is_redacted(original):
                return
            content = part(content, "m.new_content") | {"m.relates_to": part(original, "content", "m.relates_to")}
            event = event | {"event_id": original["event_id"], "content": content}
        message = to_incoming(event, room, self._rooms)
        if content.get("msgtype") in (None, "m.notice"):
            # Those of bots, which are read and not answered.
            self.intake.remember(message)
            return
        replied_to = None if message.place.is_direct else find_replied_to(event)
        replied = await self._client.find_event(room.id, replied_to) if replied_to else {}
        addressing = to_addressing(event, message, self.account, replied=replied)
        refusal = ENCRYPTED_FILE if "file" in content else None
        if is_edit:
            await self.intake.edit(message, addressing, self.platform.offer_again)
        elif await self.intake.take(message, addressing, question_thread=message.event_id, refusal=refusal):
            self.start(self._show_presence(room, message.event_id), "presence", room.id)

    async def _look_up(self, room: Room, event_id: object) -> Json:
        # Without an answer, what was deleted or set right would stay as it was for ever.
        return await self._client.find_event(room.id, str(event_id), patience=STORE_SECONDS)

    async def _redact(self, room: Room, event: Json) -> None:
        event_id = str(part(event, "content").get("redacts") or event.get("redacts"))
        # Another server may send a redaction that counts for nothing: the homeserver says what is gone.
        if is_redacted(await self._look_up(room, event_id)):
            await self.intake.delete(room.id, [event_id])

    async def _react(self, room: Room, event: Json) -> None:
        relation = part(event, "content", "m.relates_to")
        reaction = replace(to_incoming(event, room, self._rooms), platform_message_id=str(relation.get("event_id")))
        await press(self.platform, reaction, str(relation.get("key")))

    async def _refuse_room(self, room: Room, event: Json) -> None:
        await self.intake.say(to_incoming(event, room, self._rooms), ENCRYPTED_ROOM, once=f"encrypted {room.id}")

    async def _follow(self, room: Room, event: Json) -> None:
        # State: a mere message of this kind can be sent by every member, to lead the agent anywhere.
        successor = str(part(event, "content").get("replacement_room"))
        if event.get("state_key") != "" or not successor.startswith("!"):
            return
        if successor in self._rooms:
            await self._succeeds(self._rooms[successor])
            return
        self.start(self._join_successor(room, successor, event["sender"]), "successor", room.id)

    async def _join_successor(self, room: Room, successor: str, account: str) -> None:
        # One at a time, and the latest alone: each can last as long as another server likes.
        async with self._joining[room.id]:
            if room.get("m.room.tombstone", "replacement_room") == successor:
                led_from = None if await self._invitations.is_welcome(account) else room
                await self._join(successor, led_from, server_name=account.partition(":")[2])

    async def _stays(self, room: Room) -> bool:
        """Return whether the agent stays in a room; it leaves one that succeeds none, if a stranger has led it there.

        The note of that is for the process that follows one that dies before it has looked, and it counts whatever has
        become of the room that it names, out of which the stranger can put the agent.
        """
        is_led = self._is_led(room)
        if not await self._succeeds(room) and is_led:
            await self._leave(room)
        return not room.is_left

    def _is_led(self, room: Room) -> bool:
        return str(room.get("m.room.member", "reason", self.account)).startswith("!")

    async def _succeeds(self, room: Room) -> bool:
        """Return whether a room takes the place of another, as both say; what is set for that is set for it then."""
        predecessor = part(room.event("m.room.create"), "content", "predecessor")
        old = self._rooms.get(str(predecessor.get("room_id")))
        if old is None or old.get("m.room.tombstone", "replacement_room") != room.id:
            return False
        # A room's levels may let others end it; what its admins may do goes by their will alone to those of another.
        if old.level_of(old.event("m.room.tombstone").get("sender")) < ADMIN:
            return False
        # Rooms of the latest versions don't name the event.
        if predecessor.get("event_id") not in (None, old.event("m.room.tombstone").get("event_id")):
            return False
        async with self.app.database.statement() as session:
            await session.execute(statements.follow_room, {"old": old.id, "new": room.id})
        if self._is_led(room):
            # First: without the old room nobody knows that it is a successor. Without the note it is its own room.
            with suppress(Undeliverable):
                await self._client.set_profile(self._rooms.place_of(room, None), None)
        # There nothing is set any more, no pause and no limit, and its admin can still write in it.
        await self._leave(old)
        return True

    async def _leave(self, room: Room) -> None:
        """Leave a room. Until that is done nothing is taken there, and it is tried again with each new event."""
        room.is_left = True
        try:
            await self._client.call("POST", ("rooms", room.id, "leave"), {})
        except (Undeliverable, Unavailable) as error:
            log.warning("matrix_room_not_left", room=room.id, cause=str(error))

    async def _show_presence(self, room: Room, event_id: str) -> None:
        """Show that a message is read, and who answers there."""
        with suppress(ParleyError):
            await self._client.call("POST", ("rooms", room.id, "receipt", "m.read", event_id), {})
        await self._profiles.show(self._rooms.place_of(room, None), room.get("m.room.member", PROFILE, self.account))
