"""Everything that people do with the app apart from writing messages: commands, clicks, forms, Home."""

from typing import TYPE_CHECKING

from adapters.slack.events import groups
from adapters.slack.interactions import clicks, home, shortcuts, slash
from adapters.slack.interactions.actors import Actors
from adapters.slack.interactions.clicks import Clicks
from adapters.slack.interactions.home import Homes
from adapters.slack.interactions.respond import Responses
from adapters.slack.interactions.shortcuts import Shortcuts
from adapters.slack.interactions.slash import Slash

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from adapters.chat.running import Running
    from adapters.slack.events.events import Events
    from adapters.slack.transport.clients import Clients
    from agent.app import App


def register(bolt: "AsyncApp", app: "App", clients: "Clients", *, running: "Running", events: "Events") -> None:
    """Register all listeners; names and groups come from the caches of `events`."""
    responses = Responses(clients)
    actors = Actors(clients, events.directory, events.groups)
    groups.register(bolt, events.groups)
    clicks.register(bolt, Clicks(app, actors, responses, running=running))
    slash.register(bolt, Slash(app, actors, responses, running=running))
    shortcuts.register(bolt, Shortcuts(app, clients, actors, responses=responses, directory=events.directory))
    home.register(bolt, Homes(app, actors, running))
