"""What `parley setup` asks for Slack."""

from collections.abc import Mapping

from adapters.slack.install.manifest import build_manifest, to_link
from adapters.slack.settings import SlackSettings
from shared.settings import Settings

QUESTIONS: Mapping[str, str] = {
    "SLACK_BOT_TOKEN": "the Bot User OAuth Token, xoxb-…",
    "SLACK_APP_TOKEN": "an app-level token with connections:write, xapp-…",
}


def introduce(settings: Settings) -> str:
    """Return what to do before the questions."""
    own = settings.of_module(SlackSettings, "slack")
    manifest = to_link(build_manifest(own, settings.public_url, name="Parley", is_http=False, has_panel=False))
    return (
        "Slack: this link makes the app from its manifest (`parley slack manifest` prints it); install the app into"
        f" your workspace, and make an app-level token on its page Basic Information.\n{manifest}"
    )
