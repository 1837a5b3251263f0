"""Messages that are changed or deleted after they were taken."""

from typing import TYPE_CHECKING

from adapters.slack.events.directory import Directory
from adapters.slack.events.incoming import PLATFORM, list_people, to_event_id, to_text
from adapters.slack.sending.buttons import answer_blocks, without_buttons
from adapters.slack.transport.api import Json, Web
from agent.queue.edits import Edited, change_message, find_answer
from agent.queue.redaction import redact
from shared.text import clean

if TYPE_CHECKING:
    from agent.app import App


class Changes:
    """Keeps what we have in step with what Slack has."""

    def __init__(self, app: "App", directory: Directory) -> None:
        self._app, self._directory = app, directory

    async def edit(self, message: Json, web: Web) -> Edited | None:
        """Replace the text of a message that was taken; None when it was not."""
        names = await self._directory.list_names(web, list_people([message]))
        content = clean(to_text(message, web.token.bot_user_id, names))
        event_id = to_event_id(message["channel"], message["ts"])
        return await change_message(self._app.database, PLATFORM, event_id, content)

    async def offer_again(self, web: Web, turn_id: int, asker: str) -> None:
        """Offer, below the answer to the text before, to answer the one that stands there now."""
        answer = await find_answer(self._app.database, turn_id)
        if answer is None:
            return
        where = {"channel": answer.platform_channel_id, "ts": answer.platform_message_id}
        said = await _find_message(web, answer.platform_channel_id, answer.platform_thread_id, where["ts"])
        if said is not None:
            rows = answer_blocks(turn_id, asker, self._app.clock.now(), answer.choices, was_edited=True)
            blocks = [*without_buttons(said.get("blocks", ())), *rows]
            await web.find("chat.update", text=said["text"], blocks=blocks, **where)

    async def delete(self, channel: str, ts: str) -> None:
        """Cancel what waits, and forget what was said."""
        await redact(self._app.database, self._app.storage, platform=PLATFORM, message_ids={to_event_id(channel, ts)})


async def _find_message(web: Web, channel: str, thread: str | None, ts: str) -> Json | None:
    at: Json = {"channel": channel, "latest": ts, "oldest": ts, "inclusive": True, "limit": 2}
    if thread is not None:
        found = await web.find("conversations.replies", ts=thread, **at)
    else:
        found = await web.find("conversations.history", **at)
    return next((each for each in (found or {}).get("messages", ()) if each.get("ts") == ts), None)
