"""Creates the app from a manifest, which alone decides its scopes and events."""

import re
from typing import TYPE_CHECKING, Any

from tests.standins.slack.api import METHODS
from tests.standins.slack.events import NEEDED
from tests.standins.slack.world import Json

if TYPE_CHECKING:
    from tests.standins.slack.server import SlackStandIn

COLOUR = re.compile(r"#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
COMMAND = re.compile(r"/[a-z0-9_-]{1,31}")
OF_AGENTS = frozenset({"agent_view", "assistant_view"})
OF_PANEL = frozenset({"assistant_thread_started", "assistant_thread_context_changed"})
OF_AGENT_EVENTS = frozenset({"agent_session_stopped", "app_context_changed"})
KNOWN: dict[str, frozenset[str]] = {
    "": frozenset({"_metadata", "display_information", "features", "oauth_config", "settings"}),
    "/display_information": frozenset({"name", "description", "long_description", "background_color"}),
    "/features": frozenset({"agent_view", "app_home", "assistant_view", "bot_user", "shortcuts", "slash_commands"}),
    "/features/app_home": frozenset({"home_tab_enabled", "messages_tab_enabled", "messages_tab_read_only_enabled"}),
    "/features/assistant_view": frozenset({"assistant_description", "suggested_prompts"}),
    "/features/agent_view": frozenset({"agent_description", "suggested_prompts"}),
    "/features/bot_user": frozenset({"display_name", "always_online"}),
    "/oauth_config": frozenset({"scopes", "redirect_urls"}),
    "/oauth_config/scopes": frozenset({"bot", "user"}),
    "/settings": frozenset(
        {"event_subscriptions", "interactivity", "org_deploy_enabled", "socket_mode_enabled"}
        | {"token_rotation_enabled", "allowed_ip_address_ranges"}
    ),
    "/settings/event_subscriptions": frozenset({"request_url", "bot_events", "user_events"}),
    "/settings/interactivity": frozenset({"is_enabled", "request_url", "message_menu_options_url"}),
}
# In addition to the scopes of methods and events: that of slash commands and shortcuts.
SCOPES = frozenset({"commands"}).union(
    *(method.scopes for method in METHODS.values()), (scope for scope in NEEDED.values() if scope is not None)
)


class ManifestRefused(Exception):
    """The errors that Slack's page would show."""


async def make_app(standin: "SlackStandIn", manifest: Json) -> None:
    """Configure the app from its manifest, and install it with these scopes; raises `ManifestRefused`.

    With the assistant panel, which new apps can't have, it is an app from before July 2026 that is configured again.
    """
    complaints = [*_unknown(manifest, ""), *_faults(manifest)]
    is_panel = "assistant_view" in manifest.get("features", {})
    if is_panel and not standin.is_old_app:
        complaints.append("/features/assistant_view is not available to new apps; use agent_view")
    if complaints:
        raise ManifestRefused("\n".join(complaints))
    features, settings = manifest["features"], manifest["settings"]
    standin.experience = "assistant" if is_panel else "agent"
    standin.installation.scopes = set(manifest["oauth_config"]["scopes"]["bot"])
    standin.events.subscriptions = set(settings["event_subscriptions"]["bot_events"])
    standin.commands = {command["command"] for command in features.get("slash_commands", ())}
    standin.shortcuts = {shortcut["callback_id"] for shortcut in features.get("shortcuts", ())}
    standin.redirect_urls = manifest["oauth_config"].get("redirect_urls", [])
    standin.socket.is_enabled = settings["socket_mode_enabled"]
    if not standin.socket.is_enabled:
        commands = features.get("slash_commands", [{}])[0].get("url", "")
        clicks = settings["interactivity"]["request_url"]
        url = settings["event_subscriptions"]["request_url"]
        await standin.deliver_to(url, interactions=clicks, commands=commands)


def _unknown(value: Any, where: str) -> list[str]:
    keys = KNOWN.get(where)
    if keys is None or not isinstance(value, dict):
        return []
    inner = [complaint for key in value if key in keys for complaint in _unknown(value[key], f"{where}/{key}")]
    return [f"unknown property {where}/{key}" for key in value if key not in keys] + inner


def _faults(manifest: Json) -> list[str]:
    information, features = manifest.get("display_information", {}), manifest.get("features", {})
    settings, oauth = manifest.get("settings", {}), manifest.get("oauth_config", {})
    scopes = set(oauth.get("scopes", {}).get("bot", ()))
    events = set(settings.get("event_subscriptions", {}).get("bot_events", ()))
    view = features.get("agent_view", {})
    is_socket = settings.get("socket_mode_enabled", False)
    urls = [settings.get(section, {}).get("request_url") for section in ("event_subscriptions", "interactivity")]
    urls += [command.get("url") for command in features.get("slash_commands", ())]
    checks = {
        "name has 1 to 35 characters": 1 <= len(information.get("name", "")) <= 35,
        "description has up to 140 characters": len(information.get("description", "")) <= 140,
        "long_description has 174 to 4000 characters": 174
        <= len(information.get("long_description", "x" * 174))
        <= 4000,
        "background_color is a colour": COLOUR.fullmatch(information.get("background_color", "#000")),
        "there is a bot user": features.get("bot_user", {}).get("display_name"),
        "scopes are known": not scopes - SCOPES,
        "events are known": not events - set(NEEDED),
        "events have their scopes": not {NEEDED.get(event) for event in events} - scopes - {None},
        "commands are named well": all(COMMAND.fullmatch(command["command"]) for command in features["slash_commands"]),
        "commands have a description": all(command.get("description") for command in features["slash_commands"]),
        "commands and shortcuts have their scope": "commands" in scopes,
        "the agent has its scope": not OF_AGENTS & set(features) or "assistant:write" in scopes,
        "there is one experience": not set(features) >= OF_AGENTS,
        "agent_description has 1 to 300 characters": 1 <= len(view.get("agent_description", "x")) <= 300,
        "there are up to 4 prompts": len(view.get("suggested_prompts", ())) <= 4,
        "prompts have a title and a message": all(
            set(prompt) == {"title", "message"} for prompt in view.get("suggested_prompts", ())
        ),
        "events are those of the experience": not events & (OF_PANEL if "agent_view" in features else OF_AGENT_EVENTS),
        "request URLs are given without Socket Mode": is_socket or all(urls),
        "redirect URLs are absolute": all(url.startswith("http") for url in oauth.get("redirect_urls", ())),
    }
    return [f"not so: {check}" for check, holds in checks.items() if not holds]
