"""The agent's own conversations in Slack: suggested prompts, titles, and how direct messages count.

An app may have Slack's agent messaging experience, which is detected and not configured. There, each direct message
outside a thread is the root of one. Slack adds what the person looks at to such messages, and to no others.
"""

from typing import Any

from adapters.slack.events.incoming import is_in_direct
from adapters.slack.install.manifest import list_prompts
from adapters.slack.sending.sessions import to_title
from adapters.slack.transport.api import Json, Web
from shared.db.database import Database
from shared.db.statements import load_statements

statements = load_statements(__file__)

CONTEXT = "app_context"
HEADING = "What can I do for you?"


class AgentView:
    """Detects the experience of each workspace's app."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._teams: dict[str, bool] = {}

    def note(self, team_id: str, *, is_agent: bool) -> None:
        """Keep what an event shows of the app."""
        self._teams[team_id] = is_agent

    async def to_event(self, event: Json, web: Web) -> Json:
        """Return a message as it counts for us: a direct one may be the root of its thread."""
        team = web.token.team_id
        if CONTEXT in event:
            self.note(team, is_agent=True)
        if not is_in_direct(event) or event.get("thread_ts") or not event.get("ts"):
            return event
        if team not in self._teams:
            async with self._database.statement() as session:
                is_agent = (await session.execute(statements.is_agent_view, {"team": team})).scalar_one()
            if is_agent is None:
                return event
            self._teams[team] = bool(is_agent)
        return {**event, "thread_ts": event["ts"]} if self._teams[team] else event


async def suggest(web: Web, channel: str, **where: Any) -> None:
    """Set the suggested prompts of a direct conversation, or of a thread in it."""
    method = "assistant.threads.setSuggestedPrompts"
    await web.find(method, channel_id=channel, **where, title=HEADING, prompts=list_prompts())


async def set_title(web: Web, channel: str, thread_ts: str, question: str) -> None:
    """Set a thread's title to its first question; Slack refuses this outside the panel."""
    await web.find("assistant.threads.setTitle", channel_id=channel, thread_ts=thread_ts, title=to_title(question))
