"""The rooms of an account, as the homeserver tells of them, without I/O."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from adapters.api_client import Json, objects, part
from adapters.chat.intake import to_context
from shared.messages import Place, PlatformContext
from shared.text import clean

NAME, CHILD = "matrix", "m.space.child"
MODERATOR, ADMIN = 50, 100
# What has to be known of a room: there may be as much more as its members like.
OF_ROOM = ("create", "name", "topic", "member", "power_levels", "join_rules", "history_visibility", "tombstone")
HELD = [CHILD, *(f"m.room.{name}" for name in OF_ROOM)]


class Room(Struct):
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
        listing = [space for space in spaces if space.get(CHILD, "via", room.id)]
        own = [space for space in listing if room.level_of(space.event(CHILD, room.id).get("sender")) >= MODERATOR]
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
        ids, server = [f"{room.id} {role}" for role in (*roles, "member")], space and space.get("m.room.name", "name")
        channel, topic = room.get("m.room.name", "name"), room.get("m.room.topic", "topic")
        return to_context(roles, ids, server_name=server, channel_name=channel, topic=topic)


def list_events(joined: Any) -> list[Json]:
    """Return what the homeserver tells of a room: what holds, then what has happened."""
    return objects(joined, "state", "events") + objects(joined, "timeline", "events")
