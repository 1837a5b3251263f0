"""The stand-in's state: workspaces, people, channels, messages, files, views, in their wire format."""

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

Json = dict[str, Any]

_SCOPES = (
    "app_mentions:read assistant:write channels:history channels:join channels:read chat:write commands "
    "files:read files:write groups:history groups:read im:history im:read im:write mpim:history mpim:read "
    "reactions:read reactions:write team:read usergroups:read users:read users:read.email"
)
SCOPES = frozenset(_SCOPES.split())

_numbers = count(1)
_last = 0


def new_id(prefix: str) -> str:
    """Return an id in Slack's format: a letter for its type, then capitals and digits."""
    return f"{prefix}0{next(_numbers):08X}"


def stamp(at: float | None = None) -> str:
    """Return a new `ts`; they grow, also within a microsecond."""
    global _last  # noqa: PLW0603  # ids of one process, like the counter
    moment = int((time.time() if at is None else at) * 1_000_000)
    if at is None:
        moment = _last = max(moment, _last + 1)
    return f"{moment // 1_000_000}.{moment % 1_000_000:06d}"


@dataclass
class Installation:
    """The app in one workspace. `error` is the response to its token after revocation."""

    team: Json
    bot: Json
    token: str
    scopes: set[str]
    error: str | None = None

    @property
    def bot_id(self) -> str:
        """Return the bot id of the app's messages."""
        return str(self.bot["profile"]["bot_id"])


@dataclass
class World:
    """The state. Messages are ordered lists by channel; `views` are open or published views by id.

    `sessions` are those of agents, by channel and thread, `prompts` those above their direct conversations.
    """

    app_id: str = field(default_factory=lambda: new_id("A"))
    teams: dict[str, Json] = field(default_factory=dict)
    installations: dict[str, Installation] = field(default_factory=dict)
    users: dict[str, Json] = field(default_factory=dict)
    channels: dict[str, Json] = field(default_factory=dict)
    members: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    messages: defaultdict[str, dict[str, Json]] = field(default_factory=lambda: defaultdict(dict))
    ephemerals: list[Json] = field(default_factory=list)
    files: dict[str, Json] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    user_groups: dict[str, Json] = field(default_factory=dict)
    views: dict[str, Json] = field(default_factory=dict)
    homes: dict[str, Json] = field(default_factory=dict)
    assistant_threads: dict[tuple[str, str], Json] = field(default_factory=dict)
    sessions: dict[tuple[str, str], Json] = field(default_factory=dict)
    prompts: dict[str, list[Json]] = field(default_factory=dict)

    def add_team(self, name: str) -> Json:
        """Make a workspace."""
        team = {"id": new_id("T"), "name": name, "domain": name.lower(), "url": f"https://{name.lower()}.slack.com/"}
        self.teams[team["id"]] = team
        return team

    def install(self, team: Json, scopes: Iterable[str] = SCOPES, *, name: str = "Parley") -> Installation:
        """Install the app in a workspace, with its own bot user; a repeated installation gives the bot a new token."""
        before = [installation for installation in self.installations.values() if installation.team is team]
        bot = before[0].bot if before else self.add_user(name, team, is_bot=True)
        installation = Installation(team, bot, f"xoxb-{uuid4().hex}", set(scopes))
        self.installations[installation.token] = installation
        return installation

    def installation_of(self, team_id: str) -> Installation | None:
        """Return the app's active installation in a workspace."""
        for installation in reversed(self.installations.values()):
            if installation.team["id"] == team_id and installation.error is None:
                return installation
        return None

    def forget_bot(self, installation: Installation) -> None:
        """Remove an app's bot from all channels, as uninstalling does."""
        for members in self.members.values():
            members.discard(installation.bot["id"])

    def add_user(self, name: str, team: Json, *, is_bot: bool = False, **fields: Any) -> Json:
        """Create a person's account."""
        profile: Json = {"real_name": name, "display_name": name.lower(), "email": f"{name.lower()}@example.com"}
        if is_bot:
            profile |= {"bot_id": new_id("B"), "api_app_id": self.app_id}
        user: Json = {
            "id": new_id("U"),
            "team_id": team["id"],
            "name": name.lower(),
            "real_name": name,
            "deleted": False,
            "profile": profile,
            "tz": "Europe/Amsterdam",
            "tz_offset": 3600,
            "locale": "en-US",
            "is_admin": False,
            "is_owner": False,
            "is_primary_owner": False,
            "is_restricted": False,
            "is_ultra_restricted": False,
            "is_bot": is_bot,
            "is_app_user": False,
            "is_stranger": False,
            "updated": int(time.time()),
            **fields,
        }
        self.users[user["id"]] = user
        return user

    def add_channel(
        self, name: str, team: Json | None = None, *, is_private: bool = False, has_bot: bool = True, topic: str = ""
    ) -> Json:
        """Make a channel in a workspace (the first one when none is named) with the bot in it."""
        team = team or next(iter(self.teams.values()))
        channel = self._keep_channel(team, name=name, is_channel=not is_private, is_group=is_private)
        channel |= {"is_private": is_private, "topic": {"value": topic}, "purpose": {"value": ""}}
        installation = self.installation_of(team["id"])
        if has_bot and installation is not None:
            self.members[channel["id"]].add(installation.bot["id"])
        return channel

    def add_direct(self, user: Json, team: Json | None = None) -> Json:
        """Return the direct conversation of a person with the bot of a workspace."""
        team = team or self.teams[user["team_id"]]
        for channel in self.channels.values():
            if channel.get("user") == user["id"] and channel["context_team_id"] == team["id"]:
                return channel
        channel = self._keep_channel(team, is_im=True, user=user["id"])
        bots = {installation.bot["id"] for installation in self.installations.values() if installation.team is team}
        self.members[channel["id"]] |= {user["id"], *bots}
        return channel

    def add_group_direct(self, users: Iterable[Json], team: Json | None = None) -> Json:
        """Make a direct conversation of several people with the bot."""
        users = list(users)
        team = team or self.teams[users[0]["team_id"]]
        channel = self._keep_channel(team, is_mpim=True, is_group=True, is_private=True, name=f"mpdm-{new_id('x')}")
        bots = {installation.bot["id"] for installation in self.installations.values() if installation.team is team}
        self.members[channel["id"]] |= {*(user["id"] for user in users), *bots}
        return channel

    def _keep_channel(self, team: Json, **fields: Any) -> Json:
        kind = "D" if fields.get("is_im") else "G" if fields.get("is_mpim") else "C"
        channel: Json = {
            "id": new_id(kind),
            "context_team_id": team["id"],
            "created": int(time.time()),
            "is_channel": False,
            "is_group": False,
            "is_im": False,
            "is_mpim": False,
            "is_private": bool(fields.get("is_im")),
            "is_archived": False,
            "is_general": False,
            "is_ext_shared": False,
            "shared_team_ids": [team["id"]],
            **fields,
        }
        self.channels[channel["id"]] = channel
        return channel

    def add_user_group(self, handle: str, users: Iterable[Json] = (), team: Json | None = None) -> Json:
        """Make a user group with these members."""
        team = team or next(iter(self.teams.values()))
        group = {
            "id": new_id("S"),
            "team_id": team["id"],
            "handle": handle,
            "name": handle.title(),
            "is_usergroup": True,
            "date_delete": 0,
            "users": [user["id"] for user in users],
        }
        self.user_groups[group["id"]] = group
        return group

    def share(self, channel: Json, team: Json) -> None:
        """Share a channel with another workspace, as Slack Connect does."""
        channel["is_ext_shared"] = True
        channel["shared_team_ids"].append(team["id"])

    def keep_message(self, channel: Json, text: str, **fields: Any) -> Json:
        """Store a message; in a thread, its parent counts it."""
        message: Json = {"type": "message", "ts": stamp(), "text": text, **fields}
        self.messages[channel["id"]][message["ts"]] = message
        parent = self.messages[channel["id"]].get(message.get("thread_ts", ""))
        if parent is not None and parent is not message:
            parent["thread_ts"] = parent["ts"]
            parent["reply_count"] = parent.get("reply_count", 0) + 1
            parent["latest_reply"] = message["ts"]
            parent["reply_users"] = sorted({*parent.get("reply_users", ()), message.get("user", "")})
            message.setdefault("parent_user_id", parent.get("user"))
        return message

    def kind(self, channel: Json) -> str:
        """Return the channel's type as events name it."""
        if channel["is_im"]:
            return "im"
        if channel["is_mpim"]:
            return "mpim"
        return "group" if channel["is_private"] else "channel"
