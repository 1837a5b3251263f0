"""Slack: whoever listens holds a socket or takes signed requests, every worker sends by the Web API."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.slack.platform import SlackPlatform
    from shared.settings import Settings


def build(settings: "Settings") -> "SlackPlatform | None":
    """Return the platform, None when there is no token and no app to install; the library is imported only then."""
    if settings.slack_bot_token is None and settings.slack_client_id is None:
        return None
    from adapters.slack.platform import SlackPlatform

    return SlackPlatform(settings)
