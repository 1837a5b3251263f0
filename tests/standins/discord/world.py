"""The stand-in's state: people, servers, channels, messages, in their wire format."""

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

Json = dict[str, Any]

DISCORD_EPOCH = 1420070400000
LONG_AGO = "2024-01-01T00:00:00+00:00"
PERMISSIONS = {
    "add_reactions": 1 << 6,
    "view_audit_log": 1 << 7,
    "view_channel": 1 << 10,
    "send_messages": 1 << 11,
    "embed_links": 1 << 14,
    "attach_files": 1 << 15,
    "read_message_history": 1 << 16,
    "use_application_commands": 1 << 31,
    "create_public_threads": 1 << 35,
    "send_messages_in_threads": 1 << 38,
}
EVERYTHING = sum(PERMISSIONS.values())
TEXT, DM, GROUP, THREAD, FORUM = 0, 1, 3, 11, 15
EPHEMERAL, SUPPRESS_EMBEDS, HAS_THREAD, LOADING = 1 << 6, 1 << 2, 1 << 5, 1 << 7

_numbers = count()


def snowflake(at: float | None = None) -> str:
    """Return a new id; ids grow with time, also within a millisecond."""
    milliseconds = int((time.time() if at is None else at) * 1000) - DISCORD_EPOCH
    return str((milliseconds << 22) + next(_numbers) % (1 << 22))


def now() -> str:
    """Return the time in the API's format."""
    return datetime.now(UTC).isoformat()


@dataclass
class World:
    """The state. `people` are users by id; `messages` are ordered lists by channel; `private` are DM channels."""

    people: dict[str, Json] = field(default_factory=dict)
    guilds: dict[str, Json] = field(default_factory=dict)
    channels: dict[str, Json] = field(default_factory=dict)
    members: dict[tuple[str, str], Json] = field(default_factory=dict)
    messages: dict[str, dict[str, Json]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    inviters: dict[str, str] = field(default_factory=dict)
    bot: Json = field(default_factory=dict)
    # By channel of direct messages: the bot that talks there.
    talkers: dict[str, Json] = field(default_factory=dict)
    application_flags: int = (1 << 18) | (1 << 14)

    def __post_init__(self) -> None:
        self.bot = self.bot or self.add_person("Parley", bot=True)

    def seen_by(self, bot: Json) -> "World":
        """Return the same world, as another bot sees it."""
        return replace(self, bot=bot)

    def add_person(self, name: str, *, bot: bool = False) -> Json:
        person: Json = {
            "id": snowflake(),
            "username": name.lower(),
            "global_name": name,
            "discriminator": "0000",
            "avatar": None,
            "bot": bot,
        }
        self.people[person["id"]] = person
        return person

    def add_guild(self, name: str, owner: Json, guild_id: str | None = None, joined_at: str = LONG_AGO) -> Json:
        guild_id = guild_id or snowflake()
        self.guilds[guild_id] = {
            "id": guild_id,
            "name": name,
            "owner_id": owner["id"],
            "system_channel_id": None,
            "roles": [_role(guild_id, "@everyone", EVERYTHING & ~PERMISSIONS["view_audit_log"], 0)],
            "emojis": [],
            "stickers": [],
            "features": [],
            "premium_tier": 0,
            "preferred_locale": "en-US",
            "verification_level": 0,
            "default_message_notifications": 0,
            "explicit_content_filter": 0,
            "mfa_level": 0,
            "nsfw_level": 0,
            "afk_timeout": 300,
            "system_channel_flags": 0,
        }
        self.join(guild_id, self.bot)["joined_at"] = joined_at
        self.join(guild_id, owner)
        return self.guilds[guild_id]

    def add_role(self, guild_id: str, name: str, permissions: int = 0) -> Json:
        role = _role(snowflake(), name, permissions, len(self.guilds[guild_id]["roles"]))
        self.guilds[guild_id]["roles"].append(role)
        return role

    def add_channel(self, guild_id: str, name: str, topic: str | None = None, kind: int = TEXT) -> Json:
        channel = {
            "id": snowflake(),
            "type": kind,
            "guild_id": guild_id,
            "name": name,
            "topic": topic,
            "position": len(self.channels),
            "permission_overwrites": [],
            "nsfw": False,
            "parent_id": None,
            "last_message_id": None,
            "rate_limit_per_user": 0,
            "flags": 0,
        }
        return self._kept(channel)

    def add_private(self, person: Json) -> Json:
        """Return the DM channel of a person with the bot."""
        for channel in self.channels.values():
            if channel["type"] == DM and channel["recipients"][0]["id"] == person["id"] and self.sees(channel):
                return channel
        channel = {"id": snowflake(), "type": DM, "recipients": [person], "last_message_id": None, "flags": 0}
        self.talkers[channel["id"]] = self.bot
        return self._kept(channel)

    def add_group(self, name: str, people: list[Json]) -> Json:
        """Return a conversation of several people, which the bot is no member of."""
        group = {"type": GROUP, "name": name, "icon": None, "owner_id": people[0]["id"], "recipients": people}
        return self._kept({"id": snowflake(), "last_message_id": None, "flags": 0} | group)

    def add_thread(self, parent: Json, name: str, owner_id: str, thread_id: str | None = None) -> Json:
        thread = {
            "id": thread_id or snowflake(),
            "type": THREAD,
            "guild_id": parent["guild_id"],
            "parent_id": parent["id"],
            "owner_id": owner_id,
            "name": name,
            "last_message_id": None,
            "message_count": 0,
            "member_count": 1,
            "rate_limit_per_user": 0,
            "flags": 0,
            "thread_metadata": {
                "archived": False,
                "auto_archive_duration": 1440,
                "archive_timestamp": now(),
                "locked": False,
                "create_timestamp": now(),
            },
        }
        return self._kept(thread)

    def _kept(self, channel: Json) -> Json:
        self.channels[channel["id"]] = channel
        self.messages[channel["id"]] = {}
        return channel

    def join(self, guild_id: str, person: Json, nick: str | None = None) -> Json:
        member: Json = {"roles": [], "nick": nick, "joined_at": now(), "deaf": False, "mute": False, "flags": 0}
        self.members[guild_id, person["id"]] = member
        return member

    def member(self, guild_id: str, person_id: str) -> Json:
        """Return a member with its user, as in REST."""
        return self.members[guild_id, person_id] | {"user": self.people[person_id]}

    def guild_payload(self, guild_id: str) -> Json:
        channels = [channel for channel in self.channels.values() if channel.get("guild_id") == guild_id]
        visible = [channel for channel in channels if self.may(channel, "view_channel")]
        return self.guilds[guild_id] | {
            "joined_at": self.members[guild_id, self.bot["id"]]["joined_at"],
            "large": False,
            "unavailable": False,
            "member_count": sum(1 for member in self.members if member[0] == guild_id),
            "voice_states": [],
            "presences": [],
            "stage_instances": [],
            "guild_scheduled_events": [],
            "soundboard_sounds": [],
            "members": [self.member(guild_id, self.bot["id"])],
            "channels": [channel for channel in visible if channel["type"] != THREAD],
            "threads": [thread for thread in visible if thread["type"] == THREAD],
        }

    def sees(self, channel: Json) -> bool:
        """Tell whether the bot is on a channel's server, or talks in it."""
        if "guild_id" in channel:
            return (channel["guild_id"], self.bot["id"]) in self.members
        return self.talkers.get(channel["id"]) is self.bot

    def may(self, channel: Json, permission: str) -> bool:
        """Tell whether the bot has this permission in a channel; threads have those of their parent."""
        if channel["type"] in (DM, GROUP) or not self.sees(channel):
            return channel["type"] == DM and self.sees(channel)
        if channel["type"] == THREAD:
            if permission == "send_messages":
                permission = "send_messages_in_threads"
            channel = self.channels[channel["parent_id"]]
        bit, guild = PERMISSIONS[permission], self.guilds[channel["guild_id"]]
        mine = {guild["id"], *self.members[guild["id"], self.bot["id"]]["roles"]}
        is_granted = any(role["id"] in mine and int(role["permissions"]) & bit for role in guild["roles"])
        for overwrite in channel["permission_overwrites"]:
            if overwrite["id"] in mine | {self.bot["id"]}:
                is_granted = (is_granted and not int(overwrite["deny"]) & bit) or bool(int(overwrite["allow"]) & bit)
        return is_granted

    def permissions(self, guild: Json) -> int:
        """Return the permissions of the bot's roles on a server."""
        mine = {guild["id"], *self.members[guild["id"], self.bot["id"]]["roles"]}
        bits = 0
        for role in guild["roles"]:
            bits |= int(role["permissions"]) if role["id"] in mine else 0
        return bits

    def forbid(self, channel: Json, *permissions: str) -> None:
        """Take permissions away from the bot in a channel."""
        deny = sum(PERMISSIONS[permission] for permission in permissions)
        channel["permission_overwrites"] = [{"id": self.bot["id"], "type": 1, "allow": "0", "deny": str(deny)}]

    def find_message(self, channel_id: str, message_id: str) -> Json | None:
        """Return a message of a channel; a thread's first message may be in its parent."""
        return self.messages.get(channel_id, {}).get(message_id)

    def mentioned(self, content: str) -> list[Json]:
        """Return the people whom a text mentions."""
        return [person for key, person in self.people.items() if f"<@{key}>" in content or f"<@!{key}>" in content]

    def keep_message(self, channel: Json, author: Json, content: str, **fields: Any) -> Json:
        """Store a message and return it as in REST."""
        message = {
            "id": snowflake(),
            "type": 0,
            "channel_id": channel["id"],
            "author": author,
            "content": content,
            "timestamp": now(),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": self.mentioned(content),
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "components": [],
            "pinned": False,
            "flags": 0,
            **fields,
        }
        self.messages[channel["id"]][message["id"]] = message
        channel["last_message_id"] = message["id"]
        return message


def _role(role_id: str, name: str, permissions: int, position: int) -> Json:
    return {
        "id": role_id,
        "name": name,
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "position": position,
        "permissions": str(permissions),
        "managed": False,
        "mentionable": False,
        "flags": 0,
    }
