"""The agent's own conversations in Slack: suggested prompts, the native stop button, and the older assistant panel."""

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from adapters.slack.events.agent_view import suggest
from adapters.slack.events.incoming import PLATFORM
from adapters.slack.sending.sessions import set_finished
from adapters.slack.transport.api import Json
from agent import commands
from shared.errors import ParleyError
from shared.log import get_logger
from shared.messages import Place

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from adapters.base import Running
    from adapters.slack.events.agent_view import AgentView
    from adapters.slack.interactions.actors import Actors
    from adapters.slack.transport.clients import Clients
    from agent.app import App

STOP = "/stop"

log = get_logger()


class Assistant(Struct, frozen=True):
    """Accepts the events of the agent's conversations; no acknowledgement waits for the work behind it."""

    app: "App"
    clients: "Clients"
    actors: "Actors"
    running: "Running"
    agent_view: "AgentView"

    async def on_opened(self, event: Json, context: Any) -> None:
        """Suggest prompts to a person who opens the direct messages with the agent."""
        web = await self.clients.find(context.team_id)
        if web is not None and event.get("tab") == "messages" and event.get("channel"):
            # With a thread, Slack's agent messaging experience would ignore the call.
            self.running.start(suggest(web, str(event["channel"])), "suggested prompts")

    async def on_context(self, event: Json, context: Any) -> None:
        """Note that the app has the agent messaging experience; what the person looks at is not used."""
        if context.team_id:
            self.agent_view.note(str(context.team_id), is_agent=True)

    async def on_panel(self, event: Json, context: Any) -> None:
        """Suggest prompts in a new thread of the older panel."""
        web = await self.clients.find(context.team_id)
        thread = event.get("assistant_thread") or {}
        if web is not None and thread.get("channel_id") and thread.get("thread_ts"):
            self.agent_view.note(web.token.team_id, is_agent=False)
            where = {"thread_ts": str(thread["thread_ts"])}
            self.running.start(suggest(web, str(thread["channel_id"]), **where), "suggested prompts")

    async def on_stopped(self, event: Json, context: Any) -> None:
        """Stop the answer in the thread whose native stop button a person has clicked."""
        if event.get("channel") and event.get("thread_ts") and event.get("user"):
            self.running.start(self._stop(event, context.team_id), "native stop")

    async def _stop(self, event: Json, team_id: str | None) -> None:
        channel, thread_ts = str(event["channel"]), str(event["thread_ts"])
        try:
            actor = await self.actors.find_actor(team_id, str(event["user"]))
            if actor is None:
                return
            place = Place(PLATFORM, actor.team_id, channel, thread=thread_ts, is_direct=channel.startswith("D"))
            await commands.answer(self.app, actor.sender, place, text=STOP, platform_context=actor.platform_context)
        except ParleyError as error:
            log.warning("slack_stop_failed", cause=str(error))
            return
        # Slack leaves it to the app to end the status.
        await set_finished(actor.web, place, "active", hours=self.app.settings.delivery_hours)


def register(bolt: "AsyncApp", assistant: Assistant) -> None:
    """Register the listeners."""
    bolt.event("app_context_changed")(assistant.on_context)
    bolt.event("agent_session_stopped")(assistant.on_stopped)
    bolt.event("assistant_thread_started")(assistant.on_panel)
