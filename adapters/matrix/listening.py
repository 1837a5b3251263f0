"""Listens to one account by /sync."""

import json
from asyncio import Lock, gather, wait_for
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from secrets import randbelow
from typing import Any

from msgspec.structs import replace

from adapters.api_client import AnswerTooLarge, Json, list_names, objects, part
from adapters.base import STORE_SECONDS
from adapters.chat.account.invitations import Invitations
from adapters.chat.account.listening import Listener, News
from adapters.chat.account.profiles import Profiles
from adapters.chat.posting import PostingPlatform, press
from adapters.matrix.client import PROFILE, Client
from adapters.matrix.incoming import find_replied_to, is_leaving, is_redacted, to_addressing, to_incoming, to_sent_at
from adapters.matrix.rooms import ADMIN, HELD, NAME, Room, Rooms, list_events
from shared.db.statements import load_statements
from shared.errors import ParleyError, Unavailable, Undeliverable
from shared.log import get_logger

statements = load_statements(__file__)
log = get_logger()

POLL_MS, SYNC_SECONDS, FIRST_SYNC_SECONDS, DECLINE_SECONDS = 20_000, 60.0, 300.0, 20.0
# Of the events of a room that were missed; no honest homeserver has so many pages, and none of them is too large.
PAGE, MOST_PAGES = 400, 250
LAZY, NONE = {"lazy_load_members": True}, {"types": list[str]()}
ROOM: Json = {"state": {"types": HELD, **LAZY}, "ephemeral": NONE, "account_data": NONE}
FILTER: Json = {"presence": NONE, "account_data": NONE}
# Of a room; and of an event so much that there is one.
EVENTS, FEW = 50, ["event_id", "type", "state_key", "sender", "content.membership", "content.is_direct"]
NOTHING, LEFT = {"timeline": Json()}, {"membership": "leave"}
# What bots, homeservers and clients write: it is read and not answered.
UNANSWERED = (None, "m.notice", "m.server_notice", "m.key.verification.request")
MOST_INVITED = 500
ENCRYPTED_ROOM = "This room is encrypted, and I can't read it; please invite me to a room without encryption."
DECLINED = "I accept the invitations of some people only; please ask whoever runs me."
ENCRYPTED_FILE = "I can't read an encrypted file; please send it without encryption."


class MatrixListener(Listener):
    """The connection of one account."""

    def __init__(self, platform: PostingPlatform, client: Client, *, invites: str) -> None:
        super().__init__(platform, client.account)
        self._client, self._rooms = client, Rooms(client.account, client.address)
        self._invitations = Invitations(self.app.database, NAME, invites)
        self._profiles = Profiles(self.app, (NAME, self.account), upload=client.upload, set_profile=client.set_profile)
        # By who invites.
        self._inviting = defaultdict[str, Lock](Lock)
        self._takers = {
            "m.room.message": self._message,
            "m.room.redaction": self._redact,
            "m.reaction": self._react,
            "m.room.encrypted": self._refuse_room,
            "m.room.tombstone": self._follow,
        }

    async def begin(self) -> tuple[str, Mapping[str, Json]]:
        """Read the state of all rooms."""
        # Synapse answers equal requests from a cache for two minutes; the timeout, which has no effect here, differs.
        batch = await self._sync(1, seconds=FIRST_SYNC_SECONDS, set_presence="online", timeout=randbelow(10**9))
        self._rooms.note(part(batch, "rooms", "join"))
        self._take_invites(batch)
        log.info("matrix_listens", rooms=len(self._rooms))
        return str(batch["next_batch"]), dict.fromkeys(self._rooms, NOTHING)

    async def read(self, mark: str) -> tuple[str, Mapping[str, Json]]:
        """Read the events of all rooms since the mark."""
        # A time of its own: what the cache has of the process before ends where that one hung up.
        batch = await self._sync(EVENTS, seconds=SYNC_SECONDS, timeout=POLL_MS - randbelow(POLL_MS // 2), since=mark)
        joined = part(batch, "rooms", "join")
        # Where earlier events are still to be taken, what holds after these is not noted yet.
        self._rooms.note({room_id: joined[room_id] for room_id in joined if not self.is_busy(room_id)})
        self._take_invites(batch)
        return str(batch["next_batch"]), joined | dict.fromkeys(part(batch, "rooms", "leave"), LEFT)

    async def _sync(self, events: int, **query: Any) -> Json:
        """Read what is new; where that is too large to be read, whatever people have done, of some rooms at a time."""
        with suppress(AnswerTooLarge):
            return await self._ask(FILTER, {"timeline": {"limit": events, **LAZY}}, **query)
        try:
            batch = await self._ask(FILTER | {"event_fields": FEW}, {"state": NONE, "timeline": {"limit": 1}}, **query)
        except AnswerTooLarge as error:
            joined = (await self._client.call("GET", ("joined_rooms",)))["joined_rooms"]
            # Of this answer only the beginning was read.
            invited = list_names(error.fields["text"].decode(errors="replace"), "rooms", "invite")
            await self._decline({*invited[:MOST_INVITED]}.difference(joined))
            raise
        joined, invites = part(batch, "rooms", "join"), part(batch, "rooms", "invite")
        joined |= await self._read_rooms([*joined], invites, **query)
        return batch

    async def _read_rooms(self, rooms: Sequence[str], invites: Json, **query: Any) -> Json:
        """Read what holds in rooms; one where that alone is too large is left. What was said in the others is a gap."""
        try:
            batch = await self._ask(FILTER, {"rooms": rooms, "timeline": {"limit": 1, **LAZY}}, **query)
        except AnswerTooLarge:
            if half := len(rooms) // 2:
                first = await self._read_rooms(rooms[:half], invites, **query)
                return first | await self._read_rooms(rooms[half:], invites, **query)
            if invites:
                await self._decline(invites)
                raise
            log.error("matrix_room_too_large", room=rooms[0])
            self._rooms[rooms[0]].is_left = True
            return {rooms[0]: NOTHING}
        joined = {room_id: part(batch.get("rooms"), "join", room_id) for room_id in rooms}
        for room in joined.values():
            room |= {"state": {"events": list_events(room)}, "timeline": {"limited": True}}
        return joined

    async def _decline(self, invites: Collection[str]) -> None:
        """Decline invitations. They are in each answer, whichever room it is of: it may be they that are too large."""
        log.error("matrix_invitations_too_large", declined=len(invites))
        # Not beside: what is beside ends with the connection, before a server far away has heard of it.
        with suppress(TimeoutError):
            await wait_for(gather(*[self._leave(Room(room_id)) for room_id in invites]), DECLINE_SECONDS)

    async def _ask(self, what: Json, of_rooms: Json, *, seconds: float, **query: Any) -> Json:
        options = json.dumps(what | {"room": ROOM | of_rooms})
        return await self._client.call("GET", ("sync",), seconds=seconds, filter=options, **query)

    def shorten(self, earlier: Json, later: Json) -> Json | None:
        """Return what holds in a room after both."""
        if LEFT in (earlier, later):
            return None
        room = Room("")
        room.note(list_events(earlier) + list_events(later))
        summary = part(earlier, "summary") | part(later, "summary")
        return {"state": {"events": [*room.state.values()]}, "timeline": {"limited": True}, "summary": summary}

    async def fill(self, place: str, news: News) -> None:
        """Read what the homeserver has left out; of a room that is new, look whether the agent stays."""
        if news.content == LEFT:
            return
        self._rooms.note({place: news.content})
        room = self._rooms[place]
        if not (room.is_known or room.is_left):
            # The note of that is for the process that follows one that dies before it has looked, and it counts
            # whatever has become of the room that it names, out of which the stranger can put the agent.
            is_led = self._is_led(room)
            room.is_left = not await self._succeeds(room) and is_led
            room.is_known = True
        if room.is_left:
            await self._leave(room)
        if room.is_left or part(news.content, "timeline").get("limited") is not True:
            return
        events, people = objects(news.content, "timeline", "events"), room.people
        known = [event.get("event_id") for event in events]
        try:
            room.people += sum(map(is_leaving, events))
            # Where it can't be read who has left meanwhile, nothing is taken.
            async for page in self._read_pages(room, news, types=["m.room.member"]):
                room.people += sum(map(is_leaving, page))
            async for page in self._read_pages(room, news):
                await self._take_events(room, [event for event in page if event.get("event_id") not in known])
        finally:
            room.people = people
            # A room is read by how deep its events are, which their servers say: what came last may not hold.
            room.note(objects(news.content, "state", "events"))

    async def take(self, place: str, content: Json) -> None:
        """Take what has happened in a room."""
        if content == LEFT:
            self._rooms.pop(place, None)
            return
        room, events = self._rooms[place], objects(content, "timeline", "events")
        # Who left could read what was written before: none of this was said between two alone.
        room.people, people = room.people + sum(map(is_leaving, events)), room.people
        await self._take_events(room, events)
        room.people = people

    async def _read_pages(self, room: Room, gap: News, **what: Any) -> AsyncIterator[list[Json]]:
        """Yield what has happened in a room, the oldest first."""
        query: Json = {"dir": "f", "limit": PAGE, "filter": json.dumps(what), "from": gap.since, "to": gap.now}
        read = set[str]()
        # Where nothing follows, there are homeservers that name a page again.
        while query["from"] not in {"None", *read}:
            if len(read) == MOST_PAGES:
                raise Undeliverable(f"its history has no end; what comes after {MOST_PAGES * PAGE} events is left out")
            read.add(query["from"])
            page = await self._client.read(("rooms", room.id, "messages"), **query)
            yield objects(page, "chunk")
            query["from"] = str(page.get("end"))

    async def _take_events(self, room: Room, events: Sequence[Json]) -> None:
        await self.take_all(events, partial(self._take_event, room), to_sent_at=to_sent_at, place=room.id)

    async def _take_event(self, room: Room, event: Json, is_late: bool) -> None:
        room.note([event])
        taker = self._takers.get(str(event.get("type")))
        if taker is not None and event["sender"] != self.account and not (is_late or room.is_left):
            await taker(room, event)

    def _take_invites(self, batch: Json) -> None:
        # Beside: to come into a room takes its time where another server is slow, or where there are a thousand.
        for room_id, invite in part(batch, "rooms", "invite").items():
            self.start(self._take_invite(room_id, invite), "invitation", room_id)

    async def _take_invite(self, room_id: str, invite: Json) -> None:
        """Accept an invitation, if whoever invites may, or if it is to the successor of a room; else decline it."""
        own = [event for event in objects(invite, "invite_state", "events") if event.get("state_key") == self.account]
        accounts = {str(event["sender"]) for event in own if event.get("type") == "m.room.member"}
        # The inviting server adds to the events what it likes: of two who invite, one is a lie.
        account, led_from = accounts.pop() if len(accounts) == 1 else "", None
        is_welcome = account != "" and await self._invitations.is_welcome(account)
        if not is_welcome:
            # Clients invite all to the successor of a room: whether it is one is seen inside. The end of a room may
            # still be to be taken.
            await self.settle()
            old = [room for room in self._rooms.values() if room.get("m.room.tombstone", "replacement_room") == room_id]
            led_from = next(iter(old), None)
        joins = is_welcome or led_from is not None
        path = ("join", room_id) if joins else ("rooms", room_id, "leave")
        # That a stranger has led the agent there from another room is noted in the new one.
        reason = {"reason": led_from.id} if led_from else {} if joins else {"reason": DECLINED}
        # Each can last as long as another server likes, and whoever invites may know a thousand.
        async with self._inviting[account], self.beside["join" if joins else "leave"]:
            await self._client.call("POST", path, reason)
        if is_welcome and part(own[0], "content").get("is_direct"):
            await self._client.note_direct(account, room_id)
        log.info("matrix_invited", room=room_id, account=account, is_welcome=is_welcome)

    async def _message(self, room: Room, event: Json) -> None:
        content, relation = part(event, "content"), part(event, "content", "m.relates_to")
        is_edit = relation.get("rel_type") == "m.replace"
        if is_edit:
            # Anybody can send an edit of another's message: it is the author's own, in this room, or none. Without an
            # answer, what was set right or deleted would stay as it was for ever.
            original = await self._client.find_event(room.id, relation.get("event_id"), patience=STORE_SECONDS)
            relation = part(original, "content", "m.relates_to")
            # What was deleted is no question any more, though its edits still have the text; an edit has none.
            is_message = relation.get("rel_type") != "m.replace" and not is_redacted(original)
            if original.get("sender") != event["sender"] or not is_message:
                return
            content = part(content, "m.new_content") | {"m.relates_to": relation}
            event = event | {"event_id": original["event_id"], "content": content}
        message = to_incoming(event, room, self._rooms)
        if content.get("msgtype") in UNANSWERED:
            self.intake.remember(message)
            return
        replied_to = None if message.place.is_direct else find_replied_to(event)
        replied = await self._client.find_event(room.id, replied_to) if replied_to else {}
        addressing = to_addressing(event, message, self.account, replied=replied)
        refusal = ENCRYPTED_FILE if "file" in content else None
        if is_edit:
            await self.intake.edit(message, addressing, self.platform.offer_again)
        elif await self.intake.take(message, addressing, question_thread=message.event_id, refusal=refusal):
            self.start_latest(partial(self._show_presence, room, message.event_id), "presence", room.id)

    async def _redact(self, room: Room, event: Json) -> None:
        event_id = str(part(event, "content").get("redacts") or event.get("redacts"))
        # Another server may send a redaction that counts for nothing: the homeserver says what is gone.
        if is_redacted(await self._client.find_event(room.id, event_id, patience=STORE_SECONDS)):
            await self.intake.delete(room.id, [event_id])

    async def _react(self, room: Room, event: Json) -> None:
        relation = part(event, "content", "m.relates_to")
        reaction = replace(to_incoming(event, room, self._rooms), platform_message_id=str(relation.get("event_id")))
        await press(self.platform, reaction, str(relation.get("key")))

    async def _refuse_room(self, room: Room, event: Json) -> None:
        await self.intake.say(to_incoming(event, room, self._rooms), ENCRYPTED_ROOM, once=f"encrypted:{room.id}")

    async def _follow(self, room: Room, event: Json) -> None:
        # State: a mere message of this kind can be sent by every member, to lead the agent anywhere.
        successor = str(part(event, "content").get("replacement_room"))
        is_end = event.get("state_key") == "" and successor.startswith("!")
        if is_end and successor in self._rooms:
            await self._succeeds(self._rooms[successor])
        elif is_end:
            self.start_latest(partial(self._join_successor, room, successor, event["sender"]), "successor", room.id)

    async def _join_successor(self, room: Room, successor: str, account: str) -> None:
        reason = {} if await self._invitations.is_welcome(account) else {"reason": room.id}
        await self._client.call("POST", ("join", successor), reason, server_name=account.partition(":")[2])

    def _is_led(self, room: Room) -> bool:
        return str(room.get("m.room.member", "reason", self.account)).startswith("!")

    async def _succeeds(self, room: Room) -> bool:
        """Return whether a room takes the place of another, as both say; what is set for that is set for it then."""
        predecessor = part(room.event("m.room.create"), "content", "predecessor")
        old = self._rooms.get(str(predecessor.get("room_id")))
        if old is None or old.get("m.room.tombstone", "replacement_room") != room.id:
            return False
        # A room's levels may let others end it; what its admins may do goes by their will alone to those of another.
        end = old.event("m.room.tombstone")
        # Rooms of the latest versions don't name the event.
        if old.level_of(end.get("sender")) < ADMIN or predecessor.get("event_id") not in (None, end.get("event_id")):
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
            async with self.beside["left"]:
                await self._client.call("POST", ("rooms", room.id, "leave"), {})
        except (Undeliverable, Unavailable) as error:
            log.warning("matrix_room_not_left", room=room.id, cause=str(error))

    async def _show_presence(self, room: Room, event_id: str) -> None:
        """Show that a message is read, and who answers there."""
        with suppress(ParleyError):
            await self._client.call("POST", ("rooms", room.id, "receipt", "m.read", event_id), {})
        await self._profiles.show(self._rooms.place_of(room, None), room.get("m.room.member", PROFILE, self.account))
