"""The rooms of an account, as the homeserver tells of them, and their events as our messages, without I/O."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from adapters.api_client import Json, objects, part
from adapters.chat.addressing import Addressing
from adapters.chat.intake import to_context, to_file
from shared.messages import Attachment, IncomingMessage, Place, PlatformContext, Sender
from shared.text import INVISIBLE, clean

NAME = "matrix"
MODERATOR, ADMIN, LATEST_MS = 50, 100, 4 * 10**12
LINKED = re.compile(r'href="https://matrix\.to/#/(@[^"/?]+)')
# The sign of a command that Matrix's own programs leave alone; what nobody sees may stand around it.
TYPED = re.compile(rf"(?:\s|{INVISIBLE.pattern})*[!\uff01]{INVISIBLE.pattern}*(?=[a-zA-Z\uff21-\uff5a])")
# Whoever writes it chooses no other path of the homeserver.
MXC = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]*[A-Za-z0-9\]])/([A-Za-z0-9_=-]+)")
FILES = frozenset({"m.file", "m.image", "m.audio", "m.video"})
DOWNLOAD = "/_matrix/client/v1/media/download/"
CREDENTIAL = f"{NAME}:account"
# What has to be known of a room: there may be as much more as its members like.
OF_ROOM = ("create", "name", "topic", "member", "power_levels", "join_rules", "history_visibility", "tombstone")
HELD = ["m.space.child", *(f"m.room.{name}" for name in OF_ROOM)]


@dataclass
class Room:
    """One room: its state, how many people are in it, and whether the agent wants to be in it no more.

    `is_known`: it was looked at whether the agent stays.
    """

    id: str
    people: int = 0
    is_left: bool = False
    is_known: bool = False
    state: dict[tuple[str, str], Json] = field(default_factory=dict)

    def note(self, events: Iterable[Json], summary: Json | None = None) -> None:
        """Keep the events that are state, and how many people are in the room or invited, where it is said."""
        state = [event for event in events if isinstance(event.get("state_key"), str) and event.get("type") in HELD]
        self.state |= {(event["type"], event["state_key"]): event for event in state}
        if summary and isinstance(joined := summary.get("m.joined_member_count"), int):
            invited = summary.get("m.invited_member_count")
            self.people = joined + (invited if isinstance(invited, int) else 0)

    def event(self, kind: str, key: str = "") -> Json:
        """Return the event that has set a part of the room's state; an empty one if nobody has."""
        return self.state.get((kind, key), {})

    def get(self, kind: str, name: str, key: str = "") -> Any:
        """Return a value of the room's state; None if it is not set."""
        return part(self.event(kind, key), "content").get(name)

    @property
    def is_direct(self) -> bool:
        """Return whether only one person and the agent are in it, and nobody comes in or reads uninvited."""
        is_closed = self.get("m.room.join_rules", "join_rule") == "invite"
        is_open = self.get("m.room.history_visibility", "history_visibility") == "world_readable"
        return self.people == 2 and is_closed and not is_open

    def name_of(self, account: str) -> str:
        """Return a member's display name, or the account's own."""
        name = clean(str(self.get("m.room.member", "displayname", account) or ""))
        return name or account.partition(":")[0].lstrip("@")

    def level_of(self, account: Any) -> int:
        """Return a member's power level."""
        creation, others = self.event("m.room.create"), self.get("m.room.create", "additional_creators")
        creators = [creation.get("sender"), *(others if isinstance(others, list) else ())]
        if account in creators and self.get("m.room.create", "room_version") == "12":
            return ADMIN
        levels = part(self.event("m.room.power_levels"), "content")
        level = part(levels, "users").get(str(account), levels.get("users_default"))
        return level if isinstance(level, int) else 0


class Rooms(dict[str, Room]):
    """The rooms that an account is in, by id."""

    def __init__(self, me: str, homeserver: str) -> None:
        super().__init__()
        self.me, self.homeserver = me, homeserver

    def __missing__(self, room_id: str) -> Room:
        self[room_id] = Room(room_id)
        return self[room_id]

    def note(self, joined: Json) -> None:
        """Keep the state of rooms before anything is taken: a space says of other rooms that they are its own."""
        for room_id in joined:
            self[room_id].note(list_events(joined[room_id]), part(joined[room_id], "summary"))

    def space_of(self, room: Room) -> Room | None:
        """Return the space in which a moderator of the room lists it: anybody has a space, and lists what they like."""
        spaces = [space for space in self.values() if space.get("m.room.create", "type") == "m.space"]
        listing = [space for space in spaces if space.get("m.space.child", "via", room.id)]
        senders = {space.id: space.event("m.space.child", room.id).get("sender") for space in listing}
        own = [space for space in listing if room.level_of(senders[space.id]) >= MODERATOR]
        return min(own, key=lambda space: space.id, default=None)

    def place_of(self, room: Room, thread: str | None) -> Place:
        """Return the place; a room outside of spaces is a server of its own."""
        server = None if room.is_direct else (self.space_of(room) or room).id
        return Place(NAME, server, room.id, thread=thread, is_direct=room.is_direct)

    def context_of(self, room: Room, account: str) -> PlatformContext:
        """Return the surroundings of a message.

        A role is one of this room: whoever makes a room is an admin there, and nowhere else.
        """
        level, space = room.level_of(account), self.space_of(room)
        roles = ("admin",) if level >= ADMIN else ("moderator",) if level >= MODERATOR else ()
        return to_context(
            roles,
            [f"{room.id} {role}" for role in (*roles, "member")],
            server_name=space and space.get("m.room.name", "name"),
            channel_name=room.get("m.room.name", "name"),
            topic=room.get("m.room.topic", "topic"),
        )


def list_events(joined: Any) -> list[Json]:
    """Return what the homeserver tells of a room: what holds, then what has happened."""
    return objects(joined, "state", "events") + objects(joined, "timeline", "events")


def is_leaving(event: Json) -> bool:
    """Return whether somebody leaves the room, or is put out of it."""
    return part(event, "content").get("membership") in ("leave", "ban")


def is_redacted(event: Json) -> bool:
    """Return whether the homeserver has taken the content out of an event."""
    return "redacted_because" in part(event, "unsigned")


def find_thread(event: Json) -> str | None:
    """Return the first message of the thread that an event is in."""
    relation = part(event, "content", "m.relates_to")
    return str(relation.get("event_id")) if relation.get("rel_type") == "m.thread" else None


def find_replied_to(event: Json) -> str | None:
    """Return the message that this one replies to; in a thread clients name the last one for those that know none."""
    relation = part(event, "content", "m.relates_to")
    other = part(relation, "m.in_reply_to").get("event_id")
    return str(other) if other and not relation.get("is_falling_back") else None


def to_sent_at(event: Json) -> datetime:
    """Return when an event was sent, as its server says: no year is too early or too late for that."""
    sent_at = event.get("origin_server_ts")
    return datetime.fromtimestamp(min(max(sent_at if isinstance(sent_at, int) else 0, 0), LATEST_MS) / 1000, UTC)


def list_mentions(content: Json) -> set[str]:
    """Return the accounts that a message mentions: as it declares them, in older clients as it links them."""
    if "m.mentions" in content:
        accounts = part(content, "m.mentions").get("user_ids")
        return {str(account) for account in accounts} if isinstance(accounts, list) else set()
    return {unquote(account) for account in LINKED.findall(str(content.get("formatted_body") or ""))}


def to_text(content: Json, me: str, name: str) -> str:
    """Return the plain text, without the mention of the agent and the quotation of what it replies to."""
    if content.get("msgtype") in FILES and content.get("filename") in (None, content.get("body")):
        return ""
    lines = clean(str(content.get("body") or "")).split("\n")
    if part(content, "m.relates_to", "m.in_reply_to") and lines[0].startswith("> <"):
        while lines and lines[0].startswith(">"):
            lines.pop(0)
    own = "|".join(map(re.escape, (me, me[1:], name)))
    # Clients of phones write a mention as a link; what nobody sees may stand around it.
    link, hidden = rf"\[@?(?:{own})\]\(https://matrix\.to/#/[^\s()]*\)", f"{INVISIBLE.pattern}*"
    mention = rf"^{hidden}(?:{link}|@?(?:{own})(?!\w)){hidden}[ ,:]*"
    text = re.sub(mention, "", "\n".join(lines).strip(), flags=re.IGNORECASE)
    sign = TYPED.match(text)
    return text if sign is None else f"/{text[sign.end() :]}"


def to_addressing(event: Json, message: IncomingMessage, me: str, *, replied: Json) -> Addressing:
    """Return to whom a message is addressed, which replies to the message `replied`, if to any."""
    accounts = list_mentions(part(event, "content")) | ({str(replied["sender"])} if replied else set())
    author = message.sender.platform_user_id
    return Addressing(
        place=message.place.key,
        message=f"{to_sent_at(event).timestamp():020.3f}{message.event_id}",
        author=author,
        sent_at=to_sent_at(event),
        calls_agent=me in accounts,
        others=frozenset(accounts - {author, me}),
    )


def list_files(content: Json, homeserver: str) -> tuple[Attachment, ...]:
    """Return the file of a message; its content is fetched from the agent's own homeserver."""
    media = MXC.fullmatch(str(content.get("url")))
    if content.get("msgtype") not in FILES or media is None:
        return ()
    facts = part(content, "info")
    duration = facts.get("duration") if "org.matrix.msc3245.voice" in content else None
    seconds = duration / 1000 if isinstance(duration, int) and duration else None
    file = to_file(
        content.get("filename") or content.get("body"),
        facts.get("mimetype"),
        facts.get("size"),
        url=f"{homeserver}{DOWNLOAD}{media[1]}/{media[2]}",
        credential=CREDENTIAL,
        voice_seconds=seconds,
    )
    return (file,)


def to_incoming(event: Json, room: Room, rooms: Rooms) -> IncomingMessage:
    """Return an event in our shape."""
    content, account, thread = part(event, "content"), str(event["sender"]), find_thread(event)
    return IncomingMessage(
        adapter=NAME,
        sender=Sender(NAME, account, room.name_of(account)),
        place=rooms.place_of(room, thread),
        event_id=str(event["event_id"]),
        content=to_text(content, rooms.me, room.name_of(rooms.me)),
        sent_at=to_sent_at(event),
        attachments=list_files(content, rooms.homeserver),
        platform_message_id=str(event["event_id"]),
        platform_context=rooms.context_of(room, account),
        replied_to=find_replied_to(event) or thread,
    )
