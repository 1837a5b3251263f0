"""The assistant panel: suggested prompts, and a title for each thread."""

from typing import TYPE_CHECKING, Any

from slack_bolt.async_app import AsyncApp

from adapters.slack.transport.api import Json, Web
from shared.text import cut

if TYPE_CHECKING:
    from adapters.chat.running import Running
    from adapters.slack.transport.clients import Clients

TITLE_CHARS = 60
HEADING = "What can I do for you?"
PROMPTS = (
    ("What can you do?", "What can you do for me here?"),
    ("Remember something", "Please remember that I like short answers."),
    ("What do you remember?", "What do you remember about me?"),
    ("Write a document", "Write me a document with an agenda for a one-hour meeting."),
)


def register(bolt: AsyncApp, clients: "Clients", running: "Running") -> None:
    """Register the listener for threads that are started in the panel."""

    async def on_started(event: Json, context: Any) -> None:
        web = await clients.find(context.team_id)
        thread = event.get("assistant_thread") or {}
        if web is not None and thread.get("channel_id") and thread.get("thread_ts"):
            # The acknowledgement doesn't wait for the suggestions.
            running.start(suggest(web, str(thread["channel_id"]), str(thread["thread_ts"])), "suggested prompts")

    bolt.event("assistant_thread_started")(on_started)


async def suggest(web: Web, channel: str, thread_ts: str) -> None:
    """Set the suggested prompts of a thread."""
    prompts = [{"title": title, "message": message} for title, message in PROMPTS]
    where: Json = {"channel_id": channel, "thread_ts": thread_ts}
    await web.find("assistant.threads.setSuggestedPrompts", **where, title=HEADING, prompts=prompts)


async def set_title(web: Web, channel: str, thread_ts: str, question: str) -> None:
    """Set a thread's title to its first question; Slack refuses this outside the panel."""
    title = cut(" ".join(question.split()), TITLE_CHARS) or "Question"
    await web.find("assistant.threads.setTitle", channel_id=channel, thread_ts=thread_ts, title=title)
