"""A reply goes out: a message in the thread of the question, parts, files."""

from typing import TYPE_CHECKING

from adapters.slack.render import render, to_blocks, to_notice
from adapters.slack.web import Json, Web

if TYPE_CHECKING:
    from agent.app import App
    from agent.outbox import Reply


async def send(app: "App", web: Web, reply: "Reply") -> str:
    """Say it once and return the id of the last message."""
    ts = ""
    for part in render(reply.content).parts:
        body: Json = {"text": to_notice(part), "blocks": to_blocks(part)}
        made = await web.call(
            "chat.postMessage",
            channel=reply.place.channel,
            thread_ts=reply.place.thread,
            unfurl_links=False,
            unfurl_media=False,
            **body,
        )
        ts = str(made["ts"])
    return ts
