"""What the homeserver says about rooms, kept in memory by the process that listens."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from adapters.matrix.client import Json
from shared.messages import Place, PlatformContext
from shared.text import clean, cut

NAME = "matrix"
TOPIC_CHARS, MODERATOR, ADMIN = 300, 50, 100


@dataclass
class Room:
    """One room: its state, and how many people are in it."""

    id: str
    people: int = 0
    state: dict[tuple[str, str], Json] = field(default_factory=dict)

    def note(self, events: Iterable[Json], summary: Json | None = None) -> None:
        """Keep the events that are state, and how many people are in the room or invited, where it is said."""
        state = [event for event in events if isinstance(event.get("state_key"), str)]
        self.state |= {(str(event.get("type")), event["state_key"]): event for event in state}
        if summary and "m.joined_member_count" in summary:
            self.people = int(summary["m.joined_member_count"]) + int(summary.get("m.invited_member_count") or 0)

    def get(self, kind: str, name: str, key: str = "") -> Any:
        """Return a value of the room's state; None if it is not set."""
        return ((self.state.get((kind, key)) or {}).get("content") or {}).get(name)

    def find_text(self, kind: str, name: str, key: str = "") -> str | None:
        """Return a text of the room's state that somebody has written; None if there is none."""
        value = self.get(kind, name, key)
        return clean(str(value)) if value else None

    @property
    def is_direct(self) -> bool:
        """Return whether only one person and the agent are in it, and nobody comes in or reads uninvited."""
        is_closed = self.get("m.room.join_rules", "join_rule") == "invite"
        is_open = self.get("m.room.history_visibility", "history_visibility") == "world_readable"
        return self.people == 2 and is_closed and not is_open

    def name_of(self, account: str) -> str:
        """Return a member's display name, or the account's own."""
        return self.find_text("m.room.member", "displayname", account) or account.partition(":")[0].lstrip("@")

    def level_of(self, account: str) -> int:
        """Return a member's power level."""
        create = self.state.get(("m.room.create", "")) or {}
        creators = [create.get("sender"), *(self.get("m.room.create", "additional_creators") or ())]
        if account in creators and self.get("m.room.create", "room_version") == "12":
            return ADMIN
        levels = self.get("m.room.power_levels", "users") or {}
        level = levels.get(account, self.get("m.room.power_levels", "users_default"))
        return level if isinstance(level, int) else 0


class Rooms(dict[str, Room]):
    """The rooms that the agent is in, by id."""

    def __missing__(self, room_id: str) -> Room:
        self[room_id] = Room(room_id)
        return self[room_id]

    def space_of(self, room: Room) -> Room | None:
        """Return the space that lists the room; the agent is in it. What the room itself says is no proof."""
        spaces = [space for space in self.values() if space.get("m.room.create", "type") == "m.space"]
        listing = [space for space in spaces if space.get("m.space.child", "via", room.id)]
        return min(listing, key=lambda space: space.id, default=None)

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
        topic = room.find_text("m.room.topic", "topic")
        return PlatformContext(
            roles=roles,
            role_ids=tuple(f"{room.id} {role}" for role in (*roles, "member")),
            server_name=space.find_text("m.room.name", "name") if space is not None else None,
            channel_name=room.find_text("m.room.name", "name"),
            topic=cut(topic, TOPIC_CHARS) if topic else None,
        )
