"""Everything that people do with the app apart from writing messages: commands, clicks, forms, Home."""

from typing import TYPE_CHECKING, Any

from adapters.slack.events import groups
from adapters.slack.interactions import assistant, clicks, credentials, home, shortcuts, slash
from adapters.slack.interactions.actors import Actors
from adapters.slack.interactions.assistant import Assistant
from adapters.slack.interactions.clicks import Clicks
from adapters.slack.interactions.credentials import CredentialForms
from adapters.slack.interactions.home import Homes
from adapters.slack.interactions.respond import Responses
from adapters.slack.interactions.shortcuts import Shortcuts
from adapters.slack.interactions.slash import Slash
from adapters.slack.transport.api import Json

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from adapters.base import Running
    from adapters.slack.events.events import Events
    from adapters.slack.transport.clients import Clients
    from agent.app import App


def register(bolt: "AsyncApp", app: "App", clients: "Clients", *, running: "Running", events: "Events") -> None:
    """Register all listeners; names and groups come from the caches of `events`."""
    responses = Responses(clients)
    actors = Actors(clients, events.directory, events.groups)
    groups.register(bolt, events.groups)
    clicks.register(bolt, Clicks(app, actors, responses), running)
    forms = CredentialForms(app, clients, actors, responses=responses)
    credentials.register(bolt, forms)
    slash.register(bolt, Slash(app, actors, responses, running=running, forms=forms))
    shortcuts.register(bolt, Shortcuts(app, clients, actors, responses=responses, directory=events.directory))
    homes = Homes(app, actors, running)
    home.register(bolt, homes, running)
    conversations = Assistant(app, clients, actors, running=running, agent_view=events.agent_view)
    assistant.register(bolt, conversations)

    async def on_opened(event: Json, context: Any) -> None:
        running.start(homes.open(event, context.team_id), "slack home")
        await conversations.on_opened(event, context)

    bolt.event("app_home_opened")(on_opened)
