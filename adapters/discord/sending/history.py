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
    return await _list_own(rest, reply, (int(since * 1000) - discord.utils.DISCORD_EPOCH) << 22)


async def find_live(rest: Rest, reply: "Reply") -> str | None:
    """Return the id of the message that shows the answer: the stored one, else the one that answers the question.

    Discord may have made a live message whose id did not come back.
    """
    live, question = reply.delivery.live_message_id, (reply.reply_to or "").rpartition(":")[2]
    if live is not None or not question.isdecimal():
        return live
    messages = await _list_own(rest, reply, int(question))
    answers = (message for message in messages if to_question(message) == question)
    return next((str(message["id"]) for message in answers), None)


def to_question(message: Json) -> str | None:
    """Return the id of the message that this one answers."""
    reference: Json = message.get("message_reference") or {}
    return reference.get("message_id")


async def _list_own(rest: Rest, reply: "Reply", after: int) -> list[Json]:
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
    question = to_question(message)
    if question is not None and question != reply_to:
        return False
    # The first try came in time; what says that the answer is late was added later.
    texts = {without_late_note(str(part["content"]).strip()) for part in (message, body)}
    return len(texts) == 1
