"""All that people do with the app beside writing messages: commands, clicks, forms, their Home."""

from typing import TYPE_CHECKING

from adapters.slack import clicks, groups, home, leaving, shortcuts, slash
from adapters.slack.clicks import Clicks
from adapters.slack.home import Homes
from adapters.slack.leaving import Leaving
from adapters.slack.respond import Responses
from adapters.slack.shortcuts import Shortcuts
from adapters.slack.slash import Slash
from adapters.slack.visitors import Visitors

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from adapters.running import Running
    from adapters.slack.clients import Clients
    from adapters.slack.events import Events
    from adapters.slack.installs import Installations
    from agent.app import App


def register(
    bolt: "AsyncApp",
    app: "App",
    clients: "Clients",
    running: "Running",
    heard: "Events",
    installations: "Installations | None",
) -> None:
    """Listen to all of it; names and groups are known from what `heard` has learnt."""
    responses = Responses(clients)
    visitors = Visitors(clients, heard.directory, heard.groups)
    groups.register(bolt, heard.groups)
    clicks.register(bolt, Clicks(app, visitors, responses, running))
    slash.register(bolt, Slash(app, visitors, responses, running))
    shortcuts.register(bolt, Shortcuts(app, clients, visitors, responses, heard.directory))
    home.register(bolt, Homes(app, visitors, running))
    if installations is not None:
        leaving.register(bolt, Leaving(clients, installations))
