"""What is there already of a reply whose delivery was cut off: Slack is asked, by the metadata of our messages."""

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
class SentBefore:
    """The messages that hold parts of the reply, and the files that came after them by name and size."""

    parts: dict[int, str] = field(default_factory=dict)
    files: frozenset[tuple[str, int]] = frozenset()

    def has_file(self, upload: "Upload") -> bool:
        """Tell whether a file is there."""
        return (upload.filename, len(upload.content)) in self.files


async def find_sent(web: Web, reply: "Reply") -> SentBefore:
    """Return what there is; raises when that can't be known: nothing is said twice."""
    oldest = {"oldest": reply.reply_to} if reply.reply_to and TS.fullmatch(reply.reply_to) else {}
    asked: Json = {"channel": reply.place.channel, "include_all_metadata": True, "limit": MOST_MESSAGES, **oldest}
    if reply.place.thread is not None:
        found = await web.call("conversations.replies", ts=reply.place.thread, **asked)
    else:
        found = await web.call("conversations.history", **asked)
    ours = [each for each in found.get("messages", ()) if each.get("user") == web.token.bot_user_id]
    parts = {part: str(each["ts"]) for each in ours if (part := _part_of(each, reply)) is not None}
    if not parts:
        return SentBefore()
    files = [file for each in ours if each["ts"] > min(parts.values()) for file in each.get("files", ())]
    return SentBefore(parts, frozenset((str(each.get("name")), int(each.get("size") or 0)) for each in files))


def _part_of(message: Json, reply: "Reply") -> int | None:
    metadata = message.get("metadata") or {}
    told = metadata.get("event_payload") or {}
    key, number = ("turn", reply.turn_id) if reply.turn_id else ("reply", reply.id)
    if metadata.get("event_type") != "parley_reply" or told.get(key) != number:
        return None
    part = told.get("part")
    return part if isinstance(part, int) else None
