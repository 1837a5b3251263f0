"""Whether an app has Slack's agent messaging experience, which is detected and not configured.

There, each direct message outside a thread is the root of one. Slack adds what the person looks at to such messages,
and to no others.
"""

from adapters.slack.events.incoming import is_in_direct
from adapters.slack.transport.api import Json, Web
from shared.db.database import Database
from shared.db.statements import load_statements

statements = load_statements(__file__)

CONTEXT = "app_context"


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
