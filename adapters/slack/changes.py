"""Messages that are changed or deleted after they were taken."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from adapters.slack.directory import Directory
from adapters.slack.incoming import PLATFORM, list_people, to_event_id, to_text
from adapters.slack.web import Json, Web
from agent.amends import Edited, change_message, find_answer
from agent.redaction import redact
from shared.text import clean

if TYPE_CHECKING:
    from agent.app import App

# The buttons below the answer to a message that was changed: its turn, who asked, the choices that it offers.
Rows = Callable[[int, str, Sequence[str]], list[Json]]


class Changes:
    """Keeps what we have in step with what Slack has."""

    def __init__(self, app: "App", directory: Directory, rows: Rows | None = None) -> None:
        self._app, self._directory, self._rows = app, directory, rows

    async def edit(self, message: Json, web: Web) -> Edited | None:
        """Replace the text of a message that was taken; None when it was not."""
        names = await self._directory.list_names(web, list_people([message]))
        content = clean(to_text(message, web.token.bot_user_id, names))
        event_id = to_event_id(message["channel"], message["ts"])
        return await change_message(self._app.database, PLATFORM, event_id, content)

    async def offer_again(self, web: Web, turn_id: int, asker: str) -> None:
        """Offer, below the answer to the text before, to answer the one that stands there now."""
        answer = await find_answer(self._app.database, turn_id) if self._rows is not None else None
        if answer is None or self._rows is None:
            return
        where = {"channel": answer.platform_channel_id, "ts": answer.platform_message_id}
        said = await _find_message(web, answer.platform_channel_id, answer.platform_thread_id, where["ts"])
        if said is not None:
            kept = [each for each in said.get("blocks", ()) if each["type"] != "actions"]
            rows = self._rows(turn_id, asker, answer.choices)
            await web.find(
                "chat.update", channel=where["channel"], ts=where["ts"], text=said["text"], blocks=kept + rows
            )

    async def delete(self, channel: str, ts: str) -> None:
        """Cancel what waits, and forget what was said."""
        await redact(self._app, PLATFORM, {to_event_id(channel, ts)})


async def _find_message(web: Web, channel: str, thread: str | None, ts: str) -> Json | None:
    at: Json = {"channel": channel, "latest": ts, "oldest": ts, "inclusive": True, "limit": 2}
    if thread is not None:
        found = await web.find("conversations.replies", ts=thread, **at)
    else:
        found = await web.find("conversations.history", **at)
    return next((each for each in (found or {}).get("messages", ()) if each.get("ts") == ts), None)
