"""Finds the messages of a reply that an earlier delivery has posted, once Discord has forgotten their nonce."""

from typing import TYPE_CHECKING

import discord

from adapters.discord.transport.rest import Json, Refused, Rest
from agent.queue.outbox import without_late_note

if TYPE_CHECKING:
    from agent.queue.outbox import Reply

# For some minutes Discord makes only one message of a nonce. A reply that is older is looked for before it is posted.
NONCE_SECONDS = 60.0
# How far Discord's clock may be from ours, and how many messages are read.
CLOCKS_DIFFER_SECONDS = 60.0
PAGE, MOST_PAGES = 100, 50


async def find_posted(rest: Rest, reply: "Reply") -> list[Json]:
    """Return our messages of the place since the reply was stored, oldest first; none if we may not read them."""
    since = discord.utils.utcnow().timestamp() - reply.age - CLOCKS_DIFFER_SECONDS
    after = (int(since * 1000) - discord.utils.DISCORD_EPOCH) << 22
    me, messages = await rest.me(), list[Json]()
    channel = reply.place.thread or reply.place.channel
    for _ in range(MOST_PAGES):
        query = {"after": str(after), "limit": str(PAGE)}
        try:
            page: list[Json] = await rest.call(
                "GET", "/channels/{channel_id}/messages", query=query, channel_id=channel
            )
        except Refused:
            return messages
        page.sort(key=lambda message: int(message["id"]))
        messages += [message for message in page if message["author"]["id"] == me["id"]]
        if len(page) < PAGE:
            break
        after = int(page[-1]["id"])
    return messages


def is_same_part(message: Json, body: Json, reply_to: str | None) -> bool:
    """Return whether a posted message shows this part of an answer to the message `reply_to`."""
    question = (message.get("message_reference") or {}).get("message_id")
    if question is not None and question != reply_to:
        return False
    # The first try came in time; what says that the answer is late was added later.
    texts = {without_late_note(str(part["content"]).strip()) for part in (message, body)}
    return len(texts) == 1
