"""What the homeserver says about rooms, kept in memory by the process that listens."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from adapters.matrix.client import Json
from shared.messages import Place, PlatformContext, QuotedMessage
from shared.text import clean, cut

NAME = "matrix"
MOST_EARLIER, TOPIC_CHARS = 10, 300
MODERATOR, ADMIN = 50, 100


@dataclass
class Room:
    """One room: its state, how many people are in it, and what was said since the agent was last called."""

    id: str
    people: int = 0
    state: dict[tuple[str, str], Json] = field(default_factory=dict)
    # With the thread that it was said in.
    recent: deque[tuple[str | None, QuotedMessage]] = field(default_factory=lambda: deque(maxlen=MOST_EARLIER))

    def note(self, events: Iterable[Json]) -> None:
        """Keep the events that are state."""
        for event in events:
            if isinstance(event.get("state_key"), str):
                self.state[str(event.get("type")), event["state_key"]] = event

    def count(self, summary: Json) -> None:
        """Keep how many people are in the room or invited, where the homeserver says it."""
        if "m.joined_member_count" in summary:
            self.people = int(summary["m.joined_member_count"]) + int(summary.get("m.invited_member_count") or 0)

    def get(self, kind: str, name: str, key: str = "") -> Any:
        """Return a value of the room's state; None if it is not set."""
        return ((self.state.get((kind, key)) or {}).get("content") or {}).get(name)

    @property
    def is_direct(self) -> bool:
        """Return whether only one person and the agent are in it, and nobody comes in or reads uninvited."""
        is_closed = self.get("m.room.join_rules", "join_rule") == "invite"
        return (
            self.people == 2
            and is_closed
            and self.get("m.room.history_visibility", "history_visibility") != ("world_readable")
        )

    @property
    def is_encrypted(self) -> bool:
        """Return whether its messages are encrypted from end to end."""
        return ("m.room.encryption", "") in self.state

    def name_of(self, account: str) -> str:
        """Return a member's display name, or the account's own."""
        return clean(str(self.get("m.room.member", "displayname", account) or account.partition(":")[0].lstrip("@")))

    def level_of(self, account: str) -> int:
        """Return a member's power level."""
        create = self.state.get(("m.room.create", "")) or {}
        creators = [create.get("sender"), *((create.get("content") or {}).get("additional_creators") or ())]
        if account in creators and self.get("m.room.create", "room_version") == "12":
            return ADMIN
        levels = self.get("m.room.power_levels", "users") or {}
        level = levels.get(account, self.get("m.room.power_levels", "users_default"))
        return level if isinstance(level, int) else 0

    def context_of(self, account: str, server: "Room | None", thread: str | None) -> PlatformContext:
        """Return the surroundings of a message, with what was said before it.

        A role is one of this room: whoever makes a room is an admin there, and nowhere else.
        """
        level = self.level_of(account)
        roles = ("admin",) if level >= ADMIN else ("moderator",) if level >= MODERATOR else ()
        name, topic = self.get("m.room.name", "name"), self.get("m.room.topic", "topic")
        return PlatformContext(
            roles=roles,
            role_ids=tuple(f"{self.id} {role}" for role in (*roles, "member")),
            server_name=clean(str(server.get("m.room.name", "name") or "")) or None if server else None,
            channel_name=clean(str(name)) if name else None,
            topic=cut(clean(str(topic)), TOPIC_CHARS) if topic else None,
            earlier=tuple(quote for place, quote in self.recent if place == thread),
        )


class Rooms(dict[str, Room]):
    """The rooms that the agent is in, by id."""

    def __missing__(self, room_id: str) -> Room:
        self[room_id] = Room(room_id)
        return self[room_id]

    def space_of(self, room: Room) -> Room | None:
        """Return the space that lists the room; the agent is in it. What the room itself says is no proof."""
        spaces = [
            space
            for space in self.values()
            if space.get("m.room.create", "type") == "m.space" and space.get("m.space.child", "via", room.id)
        ]
        return min(spaces, key=lambda space: space.id, default=None)

    def place_of(self, room: Room, thread: str | None) -> Place:
        """Return the place; a room outside of spaces is a server of its own."""
        if room.is_direct:
            return Place(NAME, None, room.id, thread=thread, is_direct=True)
        space = self.space_of(room)
        return Place(NAME, (space or room).id, room.id, thread=thread)
