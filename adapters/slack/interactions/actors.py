"""Resolves the person and the place of a click, a command or an opened Home."""

import asyncio
from typing import TYPE_CHECKING

from cachetools import FIFOCache
from msgspec import Struct

from adapters.slack.events.incoming import PLATFORM, to_account
from adapters.slack.transport.api import Json, Web
from shared.messages import Place, PlatformContext, Sender
from shared.text import clean

if TYPE_CHECKING:
    from adapters.slack.events.directory import Directory
    from adapters.slack.events.groups import Groups
    from adapters.slack.transport.clients import Clients

MOST_KEPT = 20_000
# Slack waits three seconds for an acknowledgement.
OPEN_SECONDS = 0.8


class Actor(Struct, frozen=True):
    """A person who uses the app; `user_id` is Slack's id, `web` the client of the workspace."""

    user_id: str
    sender: Sender
    platform_context: PlatformContext
    web: Web

    @property
    def team_id(self) -> str:
        """Return the id of the workspace in which this happens."""
        return self.web.token.team_id


class Actors:
    """Resolves actors and places; caches the channels of direct messages."""

    def __init__(self, clients: "Clients", directory: "Directory", groups: "Groups") -> None:
        self._clients, self._directory, self._groups = clients, directory, groups
        self._directs: FIFOCache[tuple[str, str], str] = FIFOCache(MOST_KEPT)

    async def find_actor(self, team_id: str | None, user_id: str, user_team: str | None = None) -> Actor | None:
        """Return the actor, or None if the app is not installed in the workspace (any more)."""
        web = await self._clients.find(team_id)
        if web is None:
            return None
        token = web.token
        home = user_team or token.team_id
        # Concurrently, because an acknowledgement may wait for both.
        names, groups = await asyncio.gather(
            self._directory.list_names(web, [user_id]), self._groups.find(token.team_id, user_id, home=home)
        )
        ids, titles = (None, ()) if groups is None else groups
        sender = Sender(PLATFORM, to_account(user_id, home, token), names.get(user_id))
        platform_context = PlatformContext(
            roles=tuple(clean(title) for title in titles),
            role_ids=ids,
            server_name=clean(token.team_name) if token.team_name else None,
        )
        return Actor(user_id, sender, platform_context, web=web)

    async def find_payload_actor(self, payload: Json) -> Actor | None:
        """Return the actor whom the payload of a click or a form names."""
        user = payload.get("user") or {}
        for team in list_teams(payload):
            actor = await self.find_actor(team, str(user.get("id")), user.get("team_id"))
            if actor is not None:
                return actor
        return None

    async def find_place(self, actor: Actor, channel: str, thread: str | None = None) -> Place:
        """Return a place in the actor's workspace; it is direct if it is the person's direct message with the agent."""
        is_direct = channel.startswith("D") and channel == await self.find_direct(actor)
        return Place(PLATFORM, actor.team_id, channel, thread=thread, is_direct=is_direct)

    async def find_direct(self, actor: Actor) -> str | None:
        """Return the channel of the person's direct message with the agent; None if Slack does not answer in time."""
        key = (actor.team_id, actor.user_id)
        if key not in self._directs:
            try:
                async with asyncio.timeout(OPEN_SECONDS):
                    response = await actor.web.find("conversations.open", users=actor.user_id)
            except TimeoutError:
                return None
            if response is None:
                return None
            self._directs[key] = str(response["channel"]["id"])
        return self._directs[key]


def list_teams(payload: Json) -> list[str]:
    """Return the workspaces for which a click or a form may be meant: that where the app is installed comes first.

    In a shared channel `team` may be the person's workspace; the app's own messages and views name its own. The message
    of a shortcut may be anybody's.
    """
    clicked = payload.get("message") if payload.get("type") == "block_actions" else None
    teams = [
        (payload.get("view") or {}).get("app_installed_team_id"),
        (clicked or {}).get("team"),
        (payload.get("team") or {}).get("id") or (payload.get("user") or {}).get("team_id"),
    ]
    return list(dict.fromkeys(str(team) for team in teams if team))
