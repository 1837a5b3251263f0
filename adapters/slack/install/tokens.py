"""Which token is for which workspace: the one of the settings, or one of those that were installed."""

from typing import TYPE_CHECKING

from adapters.slack.install.installations import Installations
from adapters.slack.install.vault import Vault
from adapters.slack.transport.api import Token
from adapters.slack.transport.clients import Clients, SettingsToken
from shared.errors import ConfigurationError, Unavailable

if TYPE_CHECKING:
    from adapters.slack.settings import SlackSettings
    from agent.app import App


class AllTokens:
    """The house's own workspace by `SLACK_BOT_TOKEN`, all others by the table."""

    def __init__(self, own: SettingsToken, installations: Installations) -> None:
        self._own, self._installations = own, installations

    async def find(self, team_id: str | None) -> Token | None:
        """Return a workspace's token, None when the app is not installed there."""
        try:
            own = await self._own.find(team_id)
        except Unavailable:
            # Other workspaces go on while nobody can say whose the token of the settings is.
            found = await self._installations.find(team_id)
            if found is None:
                raise
            return found
        if own is not None and team_id in (None, own.team_id):
            return own
        return await self._installations.find(team_id)


def open_installations(app: "App", settings: "SlackSettings") -> Installations | None:
    """Return the workspaces that have installed the app; None where none can."""
    if settings.client_id is None:
        return None
    if settings.client_secret is None:
        raise ConfigurationError("SLACK_CLIENT_SECRET is not set; it stands below SLACK_CLIENT_ID on the app's page.")
    return Installations(app.database, Vault(app.secrets.secret_keys), app.clock)


def open_tokens(
    settings: "SlackSettings", clients: Clients, installations: Installations | None
) -> "SettingsToken | AllTokens":
    """Return where this house's tokens are."""
    own = SettingsToken(settings, clients)
    return own if installations is None else AllTokens(own, installations)
