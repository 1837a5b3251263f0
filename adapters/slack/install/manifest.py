"""The manifest of the Slack app: the features and scopes that are used, and the addresses of this installation."""

import json
from typing import Any
from urllib.parse import quote

from adapters.slack.install import CALLBACK, COMMAND, REDIRECT, SCOPES
from adapters.slack.settings import SlackSettings
from adapters.slack.transport import PATHS
from shared.errors import ConfigurationError

Json = dict[str, Any]

# The events for which there are listeners; `message` is four events, by kind of channel.
EVENTS = (
    "agent_session_stopped",
    "app_context_changed",
    "app_home_opened",
    "app_mention",
    "app_uninstalled",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "subteam_created",
    "subteam_members_changed",
    "subteam_updated",
    "tokens_revoked",
)
# Of the agent messaging experience, and in their place that of the assistant panel, which only older apps may have.
OF_AGENT, OF_PANEL = frozenset({"agent_session_stopped", "app_context_changed"}), ("assistant_thread_started",)
TO_EVENTS, TO_CLICKS, TO_COMMANDS = PATHS
PROMPTS = (
    ("What can you do?", "What can you do for me here?"),
    ("Remember something", "Please remember that I like short answers."),
    ("What do you remember?", "What do you remember about me?"),
    ("Write a document", "Write me a document with an agenda for a one-hour meeting."),
)
# Of the commands that everybody may use; a test compares them. To import them all takes a second.
USAGES = (
    "budget",
    "confirm NUMBER|no",
    "credential set NAME|list|forget NAME",
    "erase me",
    "export",
    "help [COMMAND]",
    "login",
    "me",
    "memory list|forget WHAT|pause [everywhere]|resume [everywhere]",
    "more [AMOUNT]",
    "persona [set NAME]",
    "reset",
    "schedule list|add REMINDER|cancel ID|pause ID|resume ID",
    "stop",
    "why [TURN]",
)
NEW_APP = "https://api.slack.com/apps?new_app=1&manifest_json="
MOST_NAME = 35
COLOUR = "#2f6f4e"
DESCRIPTION = "Answers questions, uses tools and remembers what you want it to."
LONG_DESCRIPTION = (
    "A chat agent that your own team runs. Mention it in a channel, write to it directly or open it beside any "
    "conversation. It answers in the thread, shows the tools that it uses, and remembers what you ask it to. What it "
    "may do for whom, and how much it may spend, is decided by the people who run it."
)


def build_manifest(
    settings: SlackSettings,
    public_url: str | None,
    *,
    name: str = "Parley",
    is_http: bool | None = None,
    has_panel: bool = False,
) -> Json:
    """Return the manifest; `is_http=None` chooses HTTP if there is a public URL and no app token, else Socket Mode.

    `has_panel`: for an app that keeps the assistant panel, which Slack refuses to new apps.

    Raises `ConfigurationError` for HTTP without a public URL, or a name that is too long.
    """
    if not 1 <= len(name) <= MOST_NAME:
        raise ConfigurationError(f"A Slack app's name has 1 to {MOST_NAME} characters.")
    if is_http is None:
        is_http = public_url is not None and settings.app_token is None
    if is_http and public_url is None:
        raise ConfigurationError("PUBLIC_URL is not set: by HTTP, Slack sends everything to that address.")
    base = (public_url or "").rstrip("/")
    view: Json = {"agent_view": {"agent_description": DESCRIPTION, "suggested_prompts": list_prompts()}}
    if has_panel:
        view = {"assistant_view": {"assistant_description": DESCRIPTION, "suggested_prompts": []}}
    names = (*(set(EVENTS) - OF_AGENT), *OF_PANEL) if has_panel else EVENTS
    events: Json = {"bot_events": sorted(names)}
    clicks: Json = {"is_enabled": True}
    if is_http:
        events["request_url"], clicks["request_url"] = f"{base}{TO_EVENTS}", f"{base}{TO_CLICKS}"
    # Slack redirects people there after they have installed the app.
    redirects = {} if public_url is None else {"redirect_urls": [f"{base}{REDIRECT}"]}
    return {
        "display_information": {
            "name": name,
            "description": DESCRIPTION,
            "long_description": LONG_DESCRIPTION,
            "background_color": COLOUR,
        },
        "features": _features(name, f"{base}{TO_COMMANDS}" if is_http else None) | view,
        "oauth_config": {"scopes": {"bot": sorted(SCOPES)}, **redirects},
        "settings": {
            "event_subscriptions": events,
            "interactivity": clicks,
            "org_deploy_enabled": False,
            "socket_mode_enabled": not is_http,
            # Token rotation would invalidate the stored tokens every few hours.
            "token_rotation_enabled": False,
        },
    }


def list_prompts() -> list[Json]:
    """Return the suggested prompts, as the manifest and the API have them."""
    return [{"title": title, "message": message} for title, message in PROMPTS]


def to_link(manifest: Json) -> str:
    """Return the address of Slack's page for creating an app from this manifest."""
    return NEW_APP + quote(json.dumps(manifest, separators=(",", ":")))


def _features(name: str, commands_url: str | None) -> Json:
    command = {
        "command": COMMAND,
        "description": "Ask, or see what you have here",
        "usage_hint": ", ".join(["ask QUESTION", *USAGES]),
        "should_escape": False,
    }
    shortcut = {
        "name": "Ask Parley",
        "type": "message",
        "callback_id": CALLBACK,
        "description": "Ask a question about this message",
    }
    return {
        "app_home": {
            "home_tab_enabled": True,
            "messages_tab_enabled": True,
            "messages_tab_read_only_enabled": False,
        },
        "bot_user": {"display_name": name, "always_online": True},
        "shortcuts": [shortcut],
        "slash_commands": [command | ({"url": commands_url} if commands_url else {})],
    }
