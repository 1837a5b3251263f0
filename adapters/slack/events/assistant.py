"""The agent's own conversations in Slack: suggested prompts, and the titles of the older panel's threads."""

from typing import Any

from adapters.slack.sending.sessions import to_title
from adapters.slack.transport.api import Json, Web

HEADING = "What can I do for you?"
PROMPTS = (
    ("What can you do?", "What can you do for me here?"),
    ("Remember something", "Please remember that I like short answers."),
    ("What do you remember?", "What do you remember about me?"),
    ("Write a document", "Write me a document with an agenda for a one-hour meeting."),
)


def list_prompts() -> list[Json]:
    """Return the suggested prompts, as the manifest and the API have them."""
    return [{"title": title, "message": message} for title, message in PROMPTS]


async def suggest(web: Web, channel: str, **where: Any) -> None:
    """Set the suggested prompts of a direct conversation, or of a thread in it."""
    method = "assistant.threads.setSuggestedPrompts"
    await web.find(method, channel_id=channel, **where, title=HEADING, prompts=list_prompts())


async def set_title(web: Web, channel: str, thread_ts: str, question: str) -> None:
    """Set a thread's title to its first question; Slack refuses this outside the panel."""
    await web.find("assistant.threads.setTitle", channel_id=channel, thread_ts=thread_ts, title=to_title(question))
