"""A workspace takes the app out, or its token away: the token is wiped here, and the other workspaces go on."""

from typing import TYPE_CHECKING, Any

from adapters.slack.install.installations import Because, Installations
from adapters.slack.install.vault import TokenUnreadable
from adapters.slack.transport.api import Json, Token, TokenRefused
from adapters.slack.transport.clients import Clients
from shared.log import get_logger

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

# What Slack says of a token that it has given out and taken back.
GONE = ("account_inactive", "token_revoked")

log = get_logger()


class Uninstall:
    """Believes Slack's news once Slack takes the token no more: news may be late, and the app be there again."""

    def __init__(self, clients: Clients, installations: Installations) -> None:
        self._clients, self._installations = clients, installations

    async def uninstalled(self, body: Json) -> None:
        """Take the news that the app was taken out."""
        await self._end(body, "uninstalled")

    async def revoked(self, event: Json, body: Json) -> None:
        """Take the news that tokens were taken away; those of people are none of ours."""
        if (event.get("tokens") or {}).get("bot"):
            await self._end(body, "revoked")

    async def refused(self, token: Token, code: str | None) -> None:
        """Take it that a token was refused: what is no news of an end may be a fault of the way there."""
        if code in GONE and await self._installations.end(token, "revoked"):
            self._clients.forget(token)

    async def _end(self, body: Json, because: Because) -> None:
        team_id = str(body.get("team_id"))
        try:
            token = await self._installations.find(team_id)
        except TokenUnreadable:
            await self._installations.wipe(team_id, because)
            return
        if token is None:
            return
        if await self._is_alive(token):
            log.info("slack_installation_goes_on", team=team_id, news=because)
        elif await self._installations.end(token, because):
            self._clients.forget(token)

    async def _is_alive(self, token: Token) -> bool:
        # Without an answer it raises `Unavailable`, and Slack brings the news once more.
        try:
            await self._clients.of(token).call("auth.test", patience=1)
        except TokenRefused:
            return False
        return True


def register(bolt: "AsyncApp", uninstall: Uninstall) -> None:
    """Listen to the end of installations."""

    # The library passes what the names of the arguments ask for.
    async def uninstalled(body: Json) -> Any:
        await uninstall.uninstalled(body)

    async def revoked(event: Json, body: Json) -> Any:
        await uninstall.revoked(event, body)

    bolt.event("app_uninstalled")(uninstalled)
    bolt.event("tokens_revoked")(revoked)
