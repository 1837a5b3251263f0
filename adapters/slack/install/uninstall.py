"""A workspace uninstalls the app or revokes its token: the token is deleted, other workspaces are not affected."""

from typing import TYPE_CHECKING, Any

from adapters.slack.install.installations import EndReason, Installations, TokenUnreadable
from adapters.slack.transport.api import Json, TokenRefused
from adapters.slack.transport.clients import Clients
from adapters.slack.transport.token import Token
from shared.log import get_logger

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

# Slack's errors for a token that was valid once.
REVOKED_CODES = ("account_inactive", "token_revoked")

log = get_logger()


class Uninstall:
    """Deletes a token once Slack refuses it: an event may be late, and the app installed again by then."""

    def __init__(self, clients: Clients, installations: Installations) -> None:
        self._clients, self._installations = clients, installations

    async def on_uninstalled(self, body: Json) -> None:
        """Accept the event that the app was uninstalled."""
        await self._end(body, "uninstalled")

    async def on_revoked(self, event: Json, body: Json) -> None:
        """Accept the event that tokens were revoked; tokens of users are ignored."""
        if (event.get("tokens") or {}).get("bot"):
            await self._end(body, "revoked")

    async def on_refused(self, token: Token, code: str | None) -> None:
        """Accept that a call was refused; codes other than those of a revoked token may be temporary."""
        if code in REVOKED_CODES and await self._installations.end(token, "revoked"):
            self._clients.forget(token)

    async def _end(self, body: Json, reason: EndReason) -> None:
        team_id = str(body.get("team_id"))
        try:
            token = await self._installations.find(team_id)
        except TokenUnreadable:
            await self._installations.wipe(team_id, reason)
            return
        if token is None:
            return
        try:
            # Raises `Unavailable` if Slack can't be reached; then Slack sends the event again.
            await self._clients.of(token).call("auth.test", max_wait=1)
        except TokenRefused:
            if await self._installations.end(token, reason):
                self._clients.forget(token)
        else:
            log.info("slack_installation_goes_on", team=team_id, news=reason)


def register(bolt: "AsyncApp", uninstall: Uninstall) -> None:
    """Register the listeners for the end of an installation."""

    # The library passes arguments by the names of the parameters.
    async def on_uninstalled(body: Json) -> Any:
        await uninstall.on_uninstalled(body)

    async def on_revoked(event: Json, body: Json) -> Any:
        await uninstall.on_revoked(event, body)

    bolt.event("app_uninstalled")(on_uninstalled)
    bolt.event("tokens_revoked")(on_revoked)
