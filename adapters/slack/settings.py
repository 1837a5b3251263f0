"""The settings of Slack, read from `SLACK_BOT_TOKEN` and so on."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import SecretStr

from adapters.settings import PlatformSettings


@dataclass(frozen=True)
class SlackSettings(PlatformSettings):
    """The settings of one workspace (bot token), of many (client id), or both; `api_base` is for a proxy or a test."""

    has_open_threads: ClassVar[bool] = True
    has_cells: ClassVar[bool] = True
    origin_fields: ClassVar[tuple[str, ...]] = ("api_base",)

    bot_token: SecretStr | None = None
    """The bot's token."""
    app_token: SecretStr | None = None
    """Token for Socket Mode."""
    signing_secret: SecretStr | None = None
    """Checks Slack's requests over HTTP, instead of Socket Mode."""
    client_id: str | None = None
    """For an app that many workspaces install."""
    client_secret: SecretStr | None = None
    """The same."""
    api_base: str | None = None
    """Another address of Slack's API: a proxy, a test."""

    @property
    def missing(self) -> str | None:
        """Return the variables of which one has to be set."""
        is_configured = self.bot_token is not None or self.client_id is not None
        return None if is_configured else "SLACK_BOT_TOKEN (or SLACK_CLIENT_ID, for many workspaces), see docs/slack.md"

    @property
    def serves_http(self) -> bool:
        """Return whether Slack sends requests, or people install the app, through the web adapter."""
        return self.signing_secret is not None or self.client_id is not None
