"""Converts Slack's events to our messages, without I/O."""

import html
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

from msgspec.structs import replace

from adapters.chat.addressing import Addressing
from adapters.chat.intake import quote, render_cards, to_file
from adapters.slack.events.cards import is_shared, read_cards
from adapters.slack.transport.api import Json
from adapters.slack.transport.token import Token
from shared.messages import Attachment, Author, IncomingMessage, Place, PlatformContext, QuotedMessage, Sender
from shared.text import clean, to_plain_name

PLATFORM = "slack"
WRITTEN_BY_PEOPLE = frozenset({None, "file_share", "thread_broadcast", "me_message"})
# `<@U1>`, `<#C1|general>`, `<!here>`, `<https://x|label>`: Slack escapes every other `<` of a text.
SPECIAL = re.compile(r"<([^<>]*)>")
GROUP_ID = re.compile(r"<!subteam\^(S[A-Z0-9]+)")
USER_ID = re.compile(r"<@([UW][A-Z0-9]+)")


def to_incoming(
    event: Json, token: Token, names: Mapping[str, str], platform_context: PlatformContext | None = None
) -> IncomingMessage:
    """Return the event as an `IncomingMessage`; `names` has the names of its people and channels by id."""
    user = str(event["user"])
    platform_context = platform_context or PlatformContext()
    return IncomingMessage(
        adapter=PLATFORM,
        sender=Sender(PLATFORM, to_account(user, to_team(event, token), token), names.get(user)),
        place=to_place(event, token),
        event_id=to_event_id(str(event["channel"]), str(event["ts"])),
        content=to_text(event, token.bot_user_id, names),
        sent_at=to_moment(str(event["ts"])),
        attachments=to_attachments(event, token),
        platform_message_id=str(event["ts"]),
        platform_context=replace(platform_context, earlier=(*platform_context.earlier, *to_shared(event, names))),
        replied_to=find_replied_to(event),
    )


def find_replied_to(event: Json) -> str | None:
    """Return the id of the first message of the thread; None if this is the first, or in no thread."""
    thread = event.get("thread_ts")
    return to_event_id(str(event["channel"]), str(thread)) if thread and thread != event["ts"] else None


def to_event_id(channel: str, ts: str) -> str:
    """Return the id of a message in the inbox: it is the same for all events of one message."""
    return f"{channel}:{ts}"


def to_team(event: Json, token: Token) -> str:
    """Return the id of the workspace to which the author belongs: in a shared channel it may be another one."""
    return str(event.get("user_team") or event.get("source_team") or event.get("team") or token.team_id)


def to_account(user: str, team: str, token: Token) -> str:
    """Return the id of a person's identity: the bare id in our own workspace, `T…:U…` in all others."""
    return user if token.is_home and team == token.team_id else f"{team}:{user}"


def to_place(event: Json, token: Token) -> Place:
    """Return the place of a message; in a channel, each message outside a thread starts one."""
    channel, ts = str(event["channel"]), str(event["ts"])
    is_direct = is_in_direct(event)
    thread = event.get("thread_ts") or (None if is_direct else ts)
    return Place(PLATFORM, token.team_id, channel, thread=thread, is_direct=is_direct)


def is_in_direct(event: Json) -> bool:
    """Return whether a message is in a direct conversation of one person with the agent.

    Group direct messages are shared places, whatever their ids look like.
    """
    if event.get("type") == "app_mention":
        # Such an event does not tell the channel's type, and Slack sends none for direct messages.
        return False
    kind = event.get("channel_type")
    return kind == "im" if kind else str(event["channel"]).startswith("D")


def to_moment(ts: str) -> datetime:
    """Return the time at which a message was written, from its timestamp id."""
    seconds, _, micros = ts.partition(".")
    return datetime.fromtimestamp(int(seconds), UTC).replace(microsecond=int(f"{micros:0<6}"[:6] or 0))


def to_text(event: Json, bot_user_id: str, names: Mapping[str, str]) -> str:
    """Return the plain text: names instead of ids, without the mention of the agent."""
    content = re.sub(rf"<@{re.escape(bot_user_id)}(\|[^<>]*)?>[ ,:]*", "", str(event.get("text") or ""))
    return to_plain(content.strip(), names)


def to_shared(event: Json, names: Mapping[str, str]) -> list[QuotedMessage]:
    """Return the messages that this message shares, and what is shown below its text."""
    shared = [attachment for attachment in event.get("attachments") or () if is_shared(attachment)]
    channel, ts = event.get("channel"), event.get("ts")
    message_id = to_event_id(str(channel), str(ts)) if channel and ts else None
    to_line = partial(to_plain, names=names)
    quotes = []
    for attachment in shared:
        name = attachment.get("author_name")
        author = clean(f"{name} (forwarded)") if name else "forwarded message"
        text = clean(to_plain(str(attachment.get("text") or ""), names))
        if not text:
            blocks = [block for block in attachment.get("message_blocks") or () if isinstance(block, dict)]
            inner = [message for block in blocks if (message := block.get("message"))]
            text = render_cards([card for message in inner for card in read_cards(message, to_line)])
        quotes.append(QuotedMessage(author, text, message_id))
    cards = render_cards(read_cards(event, to_line), str(event.get("text") or ""))
    return [part for part in (*quotes, QuotedMessage("shown below", cards, message_id)) if part.text]


def to_plain(text: str, names: Mapping[str, str]) -> str:
    """Return Slack's markup as plain text."""
    return html.unescape(SPECIAL.sub(lambda match: _special(match[1], names), text))


def _special(inner: str, names: Mapping[str, str]) -> str:
    target, _, label = inner.partition("|")
    kind, rest = target[:1], target[1:]
    if kind == "@":
        return f"@{to_plain_name(names.get(rest) or label or rest)}"
    if kind == "#":
        return f"#{to_plain_name(label or names.get(rest) or rest)}"
    if kind == "!":
        # `<!here>`, `<!subteam^S1|@cooks>`, `<!date^…|Friday>`
        name = rest.split("^")[0]
        return label if label and name == "date" else f"@{to_plain_name(label.removeprefix('@') or name)}"
    link = target.removeprefix("mailto:")
    return f"{label} ({link})" if label and label not in (target, link) else link


def to_attachments(event: Json, token: Token) -> tuple[Attachment, ...]:
    """Return the files of a message; the worker downloads them with the workspace's token."""
    attachments, user = [], event.get("user")
    for file in event.get("files") or ():
        if file.get("mode") in ("tombstone", "hidden_by_limit"):
            continue
        # A file that the sender only shares belongs to whoever has uploaded it.
        author: Author = "person" if file.get("user") in (None, user) else "stranger"
        # An audio clip of the sender's own, not one that they share.
        length = file.get("duration_ms")
        is_own = file.get("subtype") == "slack_audio" and file.get("user") == user
        seconds = length / 1000 if is_own and isinstance(length, int) and length > 0 else None
        attachments.append(replace(to_attachment(file, token), voice_seconds=seconds, author=author))
    return tuple(attachments)


def to_attachment(file: Json, token: Token) -> Attachment:
    """Return one file."""
    return to_file(
        file.get("name") or file.get("title") or file.get("id"),
        file.get("mimetype"),
        # Slack does not know that of files that are kept elsewhere.
        file.get("size"),
        url=file.get("url_private_download") or file.get("url_private"),
        credential=f"{PLATFORM}:{token.team_id}",
    )


def to_quoted_message(event: Json, token: Token, names: Mapping[str, str]) -> QuotedMessage:
    """Return an earlier message for the context."""
    user, channel, ts = str(event.get("user") or ""), event.get("channel"), event.get("ts")
    return quote(
        names.get(user) or str(event.get("username") or user or "app"),
        to_text(event, token.bot_user_id, names),
        files=[str(file.get("name")) for file in event.get("files") or ()],
        below=to_shared(event, names),
        message_id=to_event_id(str(channel), str(ts)) if channel and ts else None,
        author_id=to_account(user, to_team(event, token), token) if user else None,
    )


def is_written_by_a_person(event: Json, token: Token) -> bool:
    """Return whether a person wrote this, and not a bot, an app or Slack itself."""
    if event.get("bot_id") or event.get("bot_profile") or event.get("hidden"):
        return False
    user = event.get("user")
    return bool(user) and user not in (token.bot_user_id, "USLACKBOT") and event.get("subtype") in WRITTEN_BY_PEOPLE


def is_written_by_an_app(event: Json, token: Token) -> bool:
    """Return whether another app wrote this: it is never answered, and is context as everything else."""
    is_own = event.get("user") == token.bot_user_id or event.get("bot_id") == token.bot_id
    return bool(event.get("bot_id")) and not is_own and event.get("subtype") in (None, "bot_message")


def mentions_agent(event: Json, token: Token) -> bool:
    """Return whether a message mentions the agent."""
    return event.get("type") == "app_mention" or f"<@{token.bot_user_id}" in str(event.get("text") or "")


def to_addressing(event: Json, place: Place, token: Token) -> Addressing:
    """Return to whom a message is addressed; Slack has no replies but threads."""
    text, author = str(event.get("text") or ""), str(event["user"])
    others = {*USER_ID.findall(text), *GROUP_ID.findall(text)} - {author, token.bot_user_id}
    return Addressing(
        place=place.key,
        message=str(event["ts"]),
        author=author,
        sent_at=to_moment(str(event["ts"])),
        calls_agent=mentions_agent(event, token),
        others=frozenset(others),
    )


def list_people(events: Sequence[Json]) -> set[str]:
    """Return the ids of the authors of these messages and of the people whom they mention."""
    user_ids = {str(event["user"]) for event in events if event.get("user")}
    for message in events:
        user_ids.update(USER_ID.findall(str(message.get("text") or "")))
    return user_ids
