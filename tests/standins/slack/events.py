"""The Events API: events of a workspace for which the app has a subscription and the scope."""

import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tests.standins.slack.chat import public_form
from tests.standins.slack.world import Installation, Json, new_id, stamp

if TYPE_CHECKING:
    from tests.standins.slack.server import SlackStandIn

# Events to which an app may subscribe, with their scopes.
NEEDED: dict[str, str | None] = {
    "app_mention": "app_mentions:read",
    "message.channels": "channels:history",
    "message.groups": "groups:history",
    "message.im": "im:history",
    "message.mpim": "mpim:history",
    "agent_session_stopped": "assistant:write",
    "app_context_changed": "assistant:write",
    "app_home_opened": None,
    "app_uninstalled": None,
    "tokens_revoked": None,
    "assistant_thread_started": "assistant:write",
    "assistant_thread_context_changed": "assistant:write",
    "member_joined_channel": "channels:read",
    "member_left_channel": "channels:read",
    "channel_left": "channels:read",
    "channel_archive": "channels:read",
    "channel_unarchive": "channels:read",
    "channel_deleted": "channels:read",
    "channel_rename": "channels:read",
    "group_left": "groups:read",
    "group_archive": "groups:read",
    "reaction_added": "reactions:read",
    "reaction_removed": "reactions:read",
    "subteam_created": "usergroups:read",
    "subteam_updated": "usergroups:read",
    "subteam_members_changed": "usergroups:read",
    "user_change": "users:read",
    "team_join": "users:read",
    "file_shared": "files:read",
}


class Events:
    """The app's subscriptions and its events. With `copies` 2 every event is sent twice."""

    def __init__(self, standin: "SlackStandIn") -> None:
        self.standin = standin
        self.subscriptions = set(NEEDED)
        self.contexts: dict[str, list[Installation]] = {}
        self.copies = 1
        self.told: set[str] = set()

    @property
    def shows_context(self) -> bool:
        """Return whether events tell what a person looks at."""
        return self.standin.experience == "agent" and "app_context_changed" in self.subscriptions

    def authorization(self, installation: Installation) -> Json:
        result = {"enterprise_id": None, "team_id": installation.team["id"], "user_id": installation.bot["id"]}
        return result | {"is_bot": True, "is_enterprise_install": False}

    async def message(self, channel: Json, message: Json) -> None:
        """Send the event of a message, and also a mention if it mentions the bot in a channel."""
        kind = self.standin.world.kind(channel)
        event = public_form(message) | {"channel": channel["id"], "event_ts": message["ts"], "channel_type": kind}
        if kind == "im" and "bot_id" not in message and self.shows_context:
            event["app_context"] = {}
        await self._in_channel(f"message.{kind}", channel, event)
        mentions = message.get("subtype") in (None, "file_share") and "bot_id" not in message
        if kind != "im" and mentions:
            await self._mention(channel, message)

    async def _mention(self, channel: Json, message: Json) -> None:
        for installation in self._present(channel):
            if f"<@{installation.bot['id']}>" not in message["text"]:
                continue
            event = public_form(message) | {"type": "app_mention", "channel": channel["id"], "event_ts": message["ts"]}
            event.pop("subtype", None)
            await self.tell("app_mention", event, [installation], channel)

    async def changed(self, channel: Json, message: Json, before: Json) -> None:
        """Send the event of an edited message."""
        event = {"subtype": "message_changed", "message": public_form(message), "previous_message": public_form(before)}
        await self._hidden(channel, event)

    async def deleted(self, channel: Json, before: Json) -> None:
        """Send the event of a deleted message."""
        event = {"subtype": "message_deleted", "deleted_ts": before["ts"], "previous_message": public_form(before)}
        await self._hidden(channel, event)

    async def _hidden(self, channel: Json, event: Json) -> None:
        at, kind = stamp(), self.standin.world.kind(channel)
        event = {"type": "message", "hidden": True, **event, "channel": channel["id"], "ts": at, "event_ts": at}
        await self._in_channel(f"message.{kind}", channel, event | {"channel_type": kind})

    async def _in_channel(self, name: str, channel: Json, event: Json) -> None:
        plural = {"message.channel": "message.channels", "message.group": "message.groups"}.get(name, name)
        await self.tell(plural, event, self._present(channel), channel)
        await self.standin.tell()

    def _present(self, channel: Json) -> list[Installation]:
        """Return the active installations whose bot is in a channel, one for each workspace."""
        members = self.standin.world.members[channel["id"]]
        teams = [self.standin.world.installation_of(team_id) for team_id in channel["shared_team_ids"]]
        return [team for team in teams if team is not None and team.bot["id"] in members]

    async def in_team(self, name: str, event: Json, team_id: str) -> None:
        """Send an event of a workspace, outside any channel."""
        installation = self.standin.world.installation_of(team_id)
        if installation is not None:
            await self.tell(name, {"type": name, "event_ts": stamp(), **event}, [installation])
        await self.standin.tell()

    async def tell(self, name: str, event: Json, seen_by: list[Installation], channel: Json | None = None) -> None:
        """Send an event, if the app has a subscription and the scope."""
        scope = NEEDED[name]
        seen_by = [installation for installation in seen_by if scope is None or scope in installation.scopes]
        if name not in self.subscriptions or not seen_by:
            return
        payload = self._payload(event, seen_by, channel)
        self.told.add(name)
        self.standin.used_scopes.update([scope] if scope else [])
        for _ in range(self.copies):
            self.standin.run(self.standin.delivery.give("events_api", payload))

    def _payload(self, event: Json, seen_by: list[Installation], channel: Json | None) -> Json:
        context = f"4-{uuid4().hex}"
        self.contexts[context] = seen_by
        payload: dict[str, Any] = {
            "token": "verification-token-of-old",
            "team_id": seen_by[0].team["id"],
            "context_team_id": seen_by[0].team["id"],
            "context_enterprise_id": None,
            "api_app_id": self.standin.world.app_id,
            "event": event,
            "type": "event_callback",
            "event_id": new_id("Ev"),
            "event_time": int(time.time()),
            "authorizations": [self.authorization(seen_by[0])],
            "is_ext_shared_channel": bool(channel and channel["is_ext_shared"]),
            "event_context": context,
        }
        return payload
