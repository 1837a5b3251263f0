"""Finds the parts of a reply that an interrupted delivery has posted, by the metadata of our messages."""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adapters.slack.transport.api import Json, Web

if TYPE_CHECKING:
    from adapters.chat.uploads import Upload
    from agent.queue.outbox import Reply

MOST_MESSAGES = 200
TS = re.compile(r"[0-9]+\.[0-9]+")


@dataclass(frozen=True, slots=True)
class AlreadySent:
    """The messages with parts of the reply, and the files after them by name and size."""

    parts: dict[int, str] = field(default_factory=dict)
    files: frozenset[tuple[str, int]] = frozenset()

    def has_file(self, upload: "Upload") -> bool:
        """Return whether the file is posted."""
        return (upload.filename, len(upload.content)) in self.files


async def find_sent(web: Web, reply: "Reply") -> AlreadySent:
    """Return what is posted already; raises if Slack can't tell, so that nothing is posted twice."""
    oldest = {"oldest": reply.reply_to} if reply.reply_to and TS.fullmatch(reply.reply_to) else {}
    query: Json = {"channel": reply.place.channel, "include_all_metadata": True, "limit": MOST_MESSAGES, **oldest}
    if reply.place.thread is not None:
        found = await web.call("conversations.replies", ts=reply.place.thread, **query)
    else:
        found = await web.call("conversations.history", **query)
    ours = [each for each in found.get("messages", ()) if each.get("user") == web.token.bot_user_id]
    parts = {part: str(each["ts"]) for each in ours if (part := _part_of(each, reply)) is not None}
    if not parts:
        return AlreadySent()
    files = [file for each in ours if each["ts"] > min(parts.values()) for file in each.get("files", ())]
    return AlreadySent(parts, frozenset((str(each.get("name")), int(each.get("size") or 0)) for each in files))


def _part_of(message: Json, reply: "Reply") -> int | None:
    metadata = message.get("metadata") or {}
    payload = metadata.get("event_payload") or {}
    key, number = ("turn", reply.turn_id) if reply.turn_id else ("reply", reply.id)
    if metadata.get("event_type") != "parley_reply" or payload.get(key) != number:
        return None
    part = payload.get("part")
    return part if isinstance(part, int) else None
