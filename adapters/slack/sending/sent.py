"""Finds the messages of a reply that an interrupted turn or delivery has posted.

Our messages have the key of their reply in their metadata. A stream gets metadata only when it ends; until then it is
recognised as the message of ours that was written while its turn ran and has no metadata.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from adapters.slack.transport.api import Json, Web
from shared.db.statements import load_statements

statements = load_statements(__file__)

if TYPE_CHECKING:
    from adapters.chat.parts import Upload
    from agent.live.announcer import LiveTurn
    from agent.queue.outbox import Reply
    from shared.db.database import Database

EVENT_TYPE = "parley_reply"
# Slack lists a channel from its newest message on, and in hours of an outage people may have written thousands.
PAGE, MOST_PAGES = 200, 50
# How much later than the end of its turn a stream may seem to have begun, by Slack's clock.
CLOCKS_DIFFER_SECONDS = 5.0
TS = re.compile(r"[0-9]+\.[0-9]+")


def to_metadata(key: str, part: int) -> Json:
    """Return the metadata of one part of a reply."""
    return {"event_type": EVENT_TYPE, "event_payload": {"key": key, "part": part}}


def find_part(message: Json, key: str) -> int | None:
    """Return which part of the reply with this key a message is; None if it is none."""
    metadata = message.get("metadata") or {}
    payload = metadata.get("event_payload") or {}
    part = payload.get("part")
    is_part = metadata.get("event_type") == EVENT_TYPE and payload.get("key") == key and isinstance(part, int)
    return part if is_part else None


class AlreadySent(Struct, frozen=True):
    """The messages with parts of the reply, further ones that show it once more, and its files by name and size."""

    parts: dict[int, str] = field(default_factory=dict)
    surplus: tuple[str, ...] = ()
    files: frozenset[tuple[str, int]] = frozenset()

    def has_file(self, upload: "Upload") -> bool:
        """Return whether the file is posted."""
        return (upload.filename, len(upload.content)) in self.files


async def find_sent(database: "Database", web: Web, answer: "Reply | LiveTurn", *, key: str) -> AlreadySent:
    """Return what is posted already; raises if Slack can't tell, so that nothing is posted twice."""
    method, messages = "conversations.history", list[Json]()
    place, question = answer.place, answer.reply_to if answer.reply_to and TS.fullmatch(answer.reply_to) else None
    oldest = {"oldest": question} if question else {}
    query: Json = {"channel": place.channel, "include_all_metadata": True, "limit": PAGE, **oldest}
    if place.thread is not None:
        method, query["ts"] = "conversations.replies", place.thread
    for _ in range(MOST_PAGES):
        page = await web.call(method, **query)
        messages += page.get("messages", ())
        query["cursor"] = (page.get("response_metadata") or {}).get("next_cursor")
        if not query["cursor"]:
            break
    messages.sort(key=lambda message: str(message.get("ts", "")))
    ours = [message for message in messages if message.get("user") == web.token.bot_user_id]
    parts: dict[int, str] = {}
    surplus: list[str] = []
    for message in ours:
        part = find_part(message, key)
        if part is not None and part in parts:
            surplus.append(str(message["ts"]))
        elif part is not None:
            parts[part] = str(message["ts"])
    for stream in await _list_streams(database, answer, ours):
        if 0 in parts:
            surplus.append(stream)
        else:
            parts[0] = stream
    if not parts:
        return AlreadySent()
    files = [file for message in ours if message["ts"] > min(parts.values()) for file in message.get("files", ())]
    names = frozenset((str(file.get("name")), int(file.get("size") or 0)) for file in files)
    return AlreadySent(parts, tuple(surplus), names)


async def remove(web: Web, channel: str, ts: str) -> None:
    """Delete a message of ours that shows a reply once more; a failure is only logged."""
    # A stream can't be deleted before its end.
    await web.find("chat.stopStream", channel=channel, ts=ts)
    await web.find("chat.delete", channel=channel, ts=ts)


async def _list_streams(database: "Database", answer: "Reply | LiveTurn", ours: Sequence[Json]) -> list[str]:
    """Return the streams of the turn that have no metadata yet."""
    after = answer.reply_to if answer.reply_to and TS.fullmatch(answer.reply_to) else answer.place.thread
    marks = ("metadata", "files", "subtype")
    unmarked = [str(message["ts"]) for message in ours if not any(message.get(mark) for mark in marks)]
    if answer.place.thread is None or not answer.turn_id or after is None or not unmarked:
        return []
    async with database.statement() as session:
        row: Any = (await session.execute(statements.list_streams, {"turn_id": answer.turn_id})).one_or_none()
    if row is None:
        return []
    # A later turn of the thread may be streaming already.
    until = float(row.ended) + CLOCKS_DIFFER_SECONDS if row.ended else float("inf")
    return [ts for ts in unmarked if float(after) < float(ts) <= until and ts not in row.others]
