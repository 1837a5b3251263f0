"""A workspace admin: installs and removes the app, archives channels, changes groups."""

import re
from collections.abc import Iterable
from html import unescape
from typing import Any
from urllib.parse import urljoin

from aiohttp import ClientSession, CookieJar

from tests.standins.slack.people import Person
from tests.standins.slack.server import SlackStandIn
from tests.standins.slack.world import Installation, Json, stamp

LINK = re.compile(r'href="([^"]*/oauth/v2/authorize[^"]*)"')


class Admin(Person):
    """A person with rights over the workspace."""

    def __init__(self, slack: SlackStandIn, name: str, *, team: Json | None = None, **fields: Any) -> None:
        super().__init__(slack, name, team=team, **{"is_admin": True, **fields})

    def _installed(self) -> Installation:
        installation = self.slack.world.installation_of(self.team["id"])
        assert installation is not None, "the app is not installed here"
        return installation

    async def installs(self, url: str, *, agrees: bool = True) -> tuple[int, str]:
        """Complete the app's installation pages; return the text of the last one."""
        self.slack.approver = self.user if agrees else None
        # Like browsers, it treats loopback addresses as secure.
        jar = CookieJar(unsafe=True, treat_as_secure_origin=url)
        async with ClientSession(cookie_jar=jar) as browser:
            async with browser.get(url, allow_redirects=False) as page:
                text, there = await page.text(), page.headers.get("Location", "")
            match = LINK.search(text)
            there = there or (unescape(match.group(1)) if match else "")
            assert there, f"the page shows no way to install: {text[:300]}"
            async with browser.get(urljoin(url, there), allow_redirects=False) as page:
                back = page.headers.get("Location", "")
                assert back, f"Slack doesn't know what to do: {await page.text()}"
            async with browser.get(back, allow_redirects=False) as page:
                return page.status, await page.text() or page.headers.get("Location", "")

    async def removes_app(self) -> None:
        """Uninstall the app: its token becomes invalid, and it gets an event."""
        installation = self._installed()
        await self._tell(installation, "tokens_revoked", tokens={"oauth": [], "bot": [installation.bot["id"]]})
        await self._tell(installation, "app_uninstalled")
        installation.error = "account_inactive"
        self.slack.world.forget_bot(installation)

    async def revokes_tokens(self, *, is_told: bool = True) -> None:
        """Revoke the app's token; without the event the app notices at its next call."""
        installation = self._installed()
        if is_told:
            await self._tell(installation, "tokens_revoked", tokens={"oauth": [], "bot": [installation.bot["id"]]})
        installation.error = "token_revoked"

    async def _tell(self, installation: Installation, name: str, **fields: Any) -> None:
        await self.slack.events.tell(name, {"type": name, "event_ts": stamp(), **fields}, [installation])

    async def archives(self, channel: Json) -> None:
        channel["is_archived"] = True
        name = "group_archive" if channel["is_private"] else "channel_archive"
        await self.slack.events.in_team(name, {"channel": channel["id"], "user": self.id}, self.team["id"])

    async def kicks_bot(self, channel: Json) -> None:
        self.slack.world.members[channel["id"]].discard(self._installed().bot["id"])
        name = "group_left" if channel["is_private"] else "channel_left"
        await self.slack.events.in_team(name, {"channel": channel["id"], "actor_id": self.id}, self.team["id"])

    async def changes_group(self, group: Json, users: Iterable[Json], *, is_disabled: bool = False) -> None:
        """Set the members of a user group."""
        before = set(group["users"])
        group["users"], group["date_delete"] = [user["id"] for user in users], int(is_disabled)
        now = set(group["users"])
        event = {"subteam_id": group["id"], "team_id": self.team["id"]}
        event |= {"added_users": sorted(now - before), "removed_users": sorted(before - now)}
        await self.slack.events.in_team("subteam_members_changed", event, self.team["id"])
        await self.slack.events.in_team("subteam_updated", {"subteam": group}, self.team["id"])

    async def changes_user(self, user: Json, **fields: Any) -> None:
        """Change a person's profile: name, guest or deleted."""
        user.update(fields)
        await self.slack.events.in_team("user_change", {"user": user}, self.team["id"])
