"""Everything that people do with the app apart from writing messages: commands, clicks, forms, Home."""

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from adapters.chat.forms import MARK, VIEW
from adapters.slack.events import groups
from adapters.slack.interactions import assistant, clicks, credentials, home, shortcuts, slash
from adapters.slack.interactions.actors import Actors
from adapters.slack.interactions.assistant import Assistant
from adapters.slack.interactions.clicks import Clicks
from adapters.slack.interactions.credentials import CredentialForms
from adapters.slack.interactions.home import Homes
from adapters.slack.interactions.respond import Responses, in_background
from adapters.slack.interactions.shortcuts import Shortcuts
from adapters.slack.interactions.slash import Slash
from adapters.slack.transport.api import Json

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from adapters.base import Running
    from adapters.slack.events.events import Events
    from adapters.slack.interactions.forms import AdminForms
    from adapters.slack.transport.clients import Clients
    from agent.app import App

FORM_BUTTONS = re.compile(rf"^{MARK}:")


def register(bolt: "AsyncApp", app: "App", clients: "Clients", *, running: "Running", events: "Events") -> None:
    """Register all listeners; names and groups come from the caches of `events`."""
    responses = Responses(clients)
    actors = Actors(clients, events.directory, events.groups)
    groups.register(bolt, events.groups)
    clicks.register(bolt, Clicks(app, actors, responses), running)
    forms = CredentialForms(app, clients, actors, responses=responses)
    credentials.register(bolt, forms)

    @cache
    def open_admin_forms() -> "AdminForms":
        # Imported when an admin uses one, for a faster start.
        from adapters.slack.interactions.forms import AdminForms

        return AdminForms(app, actors, responses, directory=events.directory, running=running)

    async def on_form_click(body: Json) -> None:
        await open_admin_forms().on_click(body)

    async def on_form(ack: Any, body: Json) -> None:
        await open_admin_forms().on_submit(ack, body)

    bolt.action(FORM_BUTTONS)(in_background(running, on_form_click, "slack form"))
    bolt.view_submission(VIEW)(on_form)
    slash.register(bolt, Slash(app, actors, responses, running=running, forms=forms, open_admin_forms=open_admin_forms))
    shortcuts.register(bolt, Shortcuts(app, clients, actors, responses=responses, directory=events.directory))
    homes = Homes(app, actors, running)
    home.register(bolt, homes, running)
    conversations = Assistant(app, clients, actors, running=running, agent_view=events.agent_view)
    assistant.register(bolt, conversations)

    async def on_opened(event: Json, context: Any) -> None:
        running.start(homes.open(event, context.team_id), "slack home")
        await conversations.on_opened(event, context)

    bolt.event("app_home_opened")(on_opened)
