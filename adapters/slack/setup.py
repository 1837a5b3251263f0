"""What `parley setup` asks for Slack."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from adapters.cli.console import shorten
from adapters.slack.install.manifest import build_manifest
from adapters.slack.settings import SlackSettings
from shared.errors import ConfigurationError
from shared.settings import Settings

TITLE = "Slack"
QUESTIONS: Mapping[str, str] = {
    "SLACK_BOT_TOKEN": "the Bot User OAuth Token, xoxb-…",
    "SLACK_APP_TOKEN": "an app-level token with connections:write, xapp-…",
}
OWNER = "Who is its owner there? Your profile, the three dots, Copy member ID."
OWNER_ID, EXAMPLE_ID = re.compile(r"[UW][A-Z0-9]{5,20}"), "U012AB3CD"
MANIFEST = "slack-manifest.json"


def introduce(settings: Settings, folder: Path) -> str:
    """Write the app's manifest into the folder; return what to do before the questions."""
    own = settings.of_module(SlackSettings, "slack")
    manifest = build_manifest(own, settings.public_url, name="Parley", is_http=False, has_panel=False)
    path = folder / MANIFEST
    try:
        # Where others may write, too, a link there could lead to any file of ours.
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            stream.write(f"{json.dumps(manifest, indent=2)}\n")
    except OSError as error:
        raise ConfigurationError(f"{path} can't be written: {error.strerror}.") from None
    return (
        "Slack: open https://api.slack.com/apps?new_app=1 and choose From a manifest.\n"
        f"Paste the text of {shorten(path)}, and install the app into your workspace.\n"
        "On its page Basic Information make an app-level token with the scope connections:write."
    )
