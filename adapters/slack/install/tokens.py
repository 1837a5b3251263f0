"""The token of each workspace: the one in the settings, or one of the installations."""

from typing import TYPE_CHECKING

from adapters.slack.install.installations import Installations, Vault
from adapters.slack.transport.clients import Clients, SettingsToken
from adapters.slack.transport.token import Token
from shared.errors import ConfigurationError, Unavailable

if TYPE_CHECKING:
    from adapters.slack.settings import SlackSettings
    from agent.app import App


class AllTokens:
    """`SLACK_BOT_TOKEN` for its own workspace, the table for all others."""

    def __init__(self, own: SettingsToken, installations: Installations) -> None:
        self._own, self._installations = own, installations

    async def find(self, team_id: str | None) -> Token | None:
        """Return a workspace's token, None if the app is not installed there."""
        try:
            own = await self._own.find(team_id)
        except Unavailable:
            # Other workspaces keep working while the workspace of the settings' token is unknown.
            token = await self._installations.find(team_id)
            if token is None:
                raise
            return token
        return own or await self._installations.find(team_id)


def open_installations(app: "App", settings: "SlackSettings") -> Installations | None:
    """Return the installations; None if the settings don't allow any."""
    if settings.client_id is None:
        return None
    if settings.client_secret is None:
        raise ConfigurationError("SLACK_CLIENT_SECRET is not set; it stands below SLACK_CLIENT_ID on the app's page.")
    installations = Installations(app.database, Vault(app.secrets.secret_keys), app.clock)
    app.events.on_change(installations.forget)
    return installations


def open_clients(app: "App", settings: "SlackSettings") -> tuple[Clients, Installations | None]:
    """Return the clients with the tokens that the settings ask for; no request is sent yet."""
    clients, installations = Clients(settings, app.clock, app.database), open_installations(app, settings)
    own = SettingsToken(settings, clients)
    clients.use(own if installations is None else AllTokens(own, installations))
    return clients, installations
