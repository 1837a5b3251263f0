"""The events of rooms as our messages, without I/O."""

import re
from datetime import UTC, datetime
from urllib.parse import unquote

from adapters.api_client import Json, part
from adapters.chat.addressing import Addressing
from adapters.chat.intake import to_file
from adapters.matrix.rooms import NAME, Room, Rooms
from shared.messages import Attachment, IncomingMessage, Sender
from shared.text import INVISIBLE, clean

LATEST_MS = 4 * 10**12
LINKED = re.compile(r'href="https://matrix\.to/#/(@[^"/?]+)')
# The sign of a command that Matrix's own programs leave alone; what nobody sees may stand around it.
TYPED = re.compile(rf"(?:\s|{INVISIBLE.pattern})*[!\uff01]{INVISIBLE.pattern}*(?=[a-zA-Z\uff21-\uff5a])")
# Whoever writes it chooses no other path of the homeserver.
MXC = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]*[A-Za-z0-9\]])/([A-Za-z0-9_=-]+)")
FILES = frozenset({"m.file", "m.image", "m.audio", "m.video"})
DOWNLOAD = "/_matrix/client/v1/media/download/"
CREDENTIAL = f"{NAME}:account"


def is_leaving(event: Json) -> bool:
    """Return whether somebody leaves the room, or is put out of it."""
    return part(event, "content").get("membership") in ("leave", "ban")


def is_redacted(event: Json) -> bool:
    """Return whether the homeserver has taken the content out of an event."""
    return "redacted_because" in part(event, "unsigned")


def find_replied_to(event: Json) -> str | None:
    """Return the message that this one replies to; in a thread clients name the last one for those that know none."""
    relation = part(event, "content", "m.relates_to")
    other = part(relation, "m.in_reply_to").get("event_id")
    return str(other) if other and not relation.get("is_falling_back") else None


def to_sent_at(event: Json) -> datetime:
    """Return when an event was sent, as its server says: no year is too early or too late for that."""
    sent_at = event.get("origin_server_ts")
    return datetime.fromtimestamp(min(max(sent_at if isinstance(sent_at, int) else 0, 0), LATEST_MS) / 1000, UTC)


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
    # Of a place, the body may be anything.
    texts = [content.get("body"), content.get("geo_uri")]
    lines = clean("\n".join(str(text) for text in texts if text)).split("\n")
    if part(content, "m.relates_to", "m.in_reply_to") and lines[0].startswith("> <"):
        while lines and lines[0].startswith(">"):
            lines.pop(0)
    own = "|".join(map(re.escape, (me, me[1:], name)))
    # Clients of phones write a mention as a link; what nobody sees may stand around it.
    link, hidden = rf"\[@?(?:{own})\]\(https://matrix\.to/#/[^\s()]*\)", f"{INVISIBLE.pattern}*"
    mention = rf"^{hidden}(?:{link}|@?(?:{own})(?!\w)){hidden}[ ,:]*"
    text = re.sub(mention, "", "\n".join(lines).strip(), flags=re.IGNORECASE)
    sign = TYPED.match(text)
    return text if sign is None else f"/{text[sign.end() :]}"


def to_addressing(event: Json, message: IncomingMessage, me: str, *, replied: Json) -> Addressing:
    """Return to whom a message is addressed, which replies to the message `replied`, if to any."""
    accounts = list_mentions(part(event, "content")) | ({str(replied["sender"])} if replied else set())
    author = message.sender.platform_user_id
    return Addressing(
        place=message.place.key,
        message=f"{to_sent_at(event).timestamp():020.3f}{message.event_id}",
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
    duration = facts.get("duration") if "org.matrix.msc3245.voice" in content else None
    seconds = duration / 1000 if isinstance(duration, int) and duration else None
    name, kind, size = content.get("filename") or content.get("body"), facts.get("mimetype"), facts.get("size")
    url = f"{homeserver}{DOWNLOAD}{media[1]}/{media[2]}"
    return (to_file(name, kind, size, url=url, credential=CREDENTIAL, voice_seconds=seconds),)


def to_incoming(event: Json, room: Room, rooms: Rooms) -> IncomingMessage:
    """Return an event in our shape."""
    content, account = part(event, "content"), str(event["sender"])
    relation = part(content, "m.relates_to")
    thread = str(relation.get("event_id")) if relation.get("rel_type") == "m.thread" else None
    return IncomingMessage(
        adapter=NAME,
        sender=Sender(NAME, account, room.name_of(account)),
        place=rooms.place_of(room, thread),
        event_id=str(event["event_id"]),
        content=to_text(content, rooms.me, room.name_of(rooms.me)),
        sent_at=to_sent_at(event),
        attachments=list_files(content, rooms.homeserver),
        platform_message_id=str(event["event_id"]),
        platform_context=rooms.context_of(room, account),
        replied_to=find_replied_to(event) or thread,
    )
