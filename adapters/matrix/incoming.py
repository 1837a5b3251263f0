"""Converts Matrix events to our messages, without I/O."""

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from adapters.chat.addressing import Addressing
from adapters.matrix.client import Json
from adapters.matrix.rooms import NAME, Room, Rooms
from shared.messages import Attachment, IncomingMessage, Sender
from shared.text import clean

LINKED = re.compile(r'href="https://matrix\.to/#/(@[^"/?]+)')
TYPED = re.compile(r"!(?=[a-zA-Z])")
# Whoever writes it chooses no other path of the homeserver.
MXC = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]*[A-Za-z0-9\]])/([A-Za-z0-9_=-]+)")
FILES = frozenset({"m.file", "m.image", "m.audio", "m.video"})
DOWNLOAD = "/_matrix/client/v1/media/download/"
CREDENTIAL = f"{NAME}:account"


def part(value: Any, *names: str) -> Json:
    """Return an object inside of what somebody sent; an empty one if it is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def find_thread(event: Json) -> str | None:
    """Return the first message of the thread that an event is in."""
    relation = part(event, "content", "m.relates_to")
    return str(relation.get("event_id")) if relation.get("rel_type") == "m.thread" else None


def find_replied_to(event: Json) -> str | None:
    """Return the message that this one replies to; in a thread clients name the last one for those that know none."""
    relation = part(event, "content", "m.relates_to")
    other = part(relation, "m.in_reply_to").get("event_id")
    return str(other) if other and not relation.get("is_falling_back") else None


def to_sent_at(event: Json) -> datetime:
    """Return when an event was sent, as its server says."""
    return datetime.fromtimestamp(int(event["origin_server_ts"]) / 1000, UTC)


def list_mentions(content: Json) -> set[str]:
    """Return the accounts that a message mentions: as it declares them, in older clients as it links them."""
    if "m.mentions" in content:
        accounts = part(content, "m.mentions").get("user_ids")
        return {str(account) for account in accounts} if isinstance(accounts, list) else set()
    return {unquote(account) for account in LINKED.findall(str(content.get("formatted_body") or ""))}


def to_text(content: Json, me: str, name: str) -> str:
    """Return the plain text, without the mention of the agent and the quotation of what it replies to."""
    if content.get("msgtype") in FILES and content.get("filename") in (None, content.get("body")):
        return ""
    lines = clean(str(content.get("body") or "")).split("\n")
    if part(content, "m.relates_to", "m.in_reply_to") and lines[0].startswith("> <"):
        while lines and lines[0].startswith(">"):
            lines.pop(0)
    own = "|".join(map(re.escape, (me, me[1:], name)))
    text = re.sub(rf"^@?(?:{own})(?!\w)[ ,:]*", "", "\n".join(lines).strip(), flags=re.IGNORECASE)
    return TYPED.sub("/", text, count=1) if text.startswith("!") else text


def to_addressing(event: Json, message: IncomingMessage, me: str, *, replied_account: str | None) -> Addressing:
    """Return to whom a message is addressed; `replied_account` wrote what it replies to."""
    accounts = list_mentions(part(event, "content")) | ({replied_account} if replied_account else set())
    author = message.sender.platform_user_id
    return Addressing(
        place=message.place.key,
        message=f"{int(event['origin_server_ts']):020}{message.event_id}",
        author=author,
        sent_at=to_sent_at(event),
        calls_agent=me in accounts,
        others=frozenset(accounts - {author, me}),
    )


def list_files(content: Json, homeserver: str) -> tuple[Attachment, ...]:
    """Return the file of a message; its content is fetched from the agent's own homeserver."""
    media = MXC.fullmatch(str(content.get("url")))
    if content.get("msgtype") not in FILES or media is None:
        return ()
    facts = part(content, "info")
    size, duration = facts.get("size"), facts.get("duration")
    is_voice = "org.matrix.msc3245.voice" in content and isinstance(duration, int)
    file = Attachment(
        clean(str(content.get("filename") or content.get("body") or "file")),
        str(facts.get("mimetype") or "application/octet-stream").partition(";")[0],
        size if isinstance(size, int) else None,
        url=f"{homeserver}{DOWNLOAD}{media[1]}/{media[2]}",
        credential=CREDENTIAL,
        voice_seconds=duration / 1000 if is_voice and duration else None,
    )
    return (file,)


def to_incoming(event: Json, room: Room, rooms: Rooms, *, me: str, homeserver: str) -> IncomingMessage:
    """Return an event in our shape."""
    content, account, thread = part(event, "content"), str(event["sender"]), find_thread(event)
    return IncomingMessage(
        adapter=NAME,
        sender=Sender(NAME, account, room.name_of(account)),
        place=rooms.place_of(room, thread),
        event_id=str(event["event_id"]),
        content=to_text(content, me, room.name_of(me)),
        sent_at=to_sent_at(event),
        attachments=list_files(content, homeserver),
        platform_message_id=str(event["event_id"]),
        platform_context=rooms.context_of(room, account),
        replied_to=find_replied_to(event) or thread,
    )
