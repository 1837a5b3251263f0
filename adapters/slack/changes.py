"""Messages that are changed or deleted after they were taken."""

from typing import TYPE_CHECKING

from adapters.slack.directory import Directory
from adapters.slack.incoming import PLATFORM, is_written_by_a_person, list_people, to_event_id, to_text
from adapters.slack.web import Json, Web
from agent.amends import change_message, redact_messages
from shared.log import get_logger
from shared.text import clean

if TYPE_CHECKING:
    from agent.app import App

TOMBSTONE = "tombstone"

log = get_logger()


class Changes:
    """Keeps what we have in step with what Slack has."""

    def __init__(self, app: "App", directory: Directory) -> None:
        self._app, self._directory = app, directory

    async def edit(self, event: Json, web: Web) -> None:
        """Replace a text that no turn has begun with."""
        message = event.get("message") or {}
        if message.get("subtype") == TOMBSTONE:
            # The first message of a thread that has replies leaves this behind when it is deleted.
            await self.delete(event["channel"], str(message.get("ts")))
            return
        if not is_written_by_a_person(message, web.token) or "edited" not in message:
            return
        names = await self._directory.list_names(web, list_people([message]))
        content = clean(to_text(message, web.token.bot_user_id, names))
        event_id = to_event_id(event["channel"], str(message.get("ts")))
        await change_message(self._app.database, PLATFORM, event_id, content)

    async def delete(self, channel: str, ts: str) -> None:
        """Cancel what waits, and forget what was said."""
        changed = await redact_messages(self._app.database, PLATFORM, [to_event_id(channel, ts)])
        if changed:
            log.info("messages_redacted", count=changed)
