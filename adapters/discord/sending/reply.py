"""Sends a reply: a new message, or an edit of the live message; its parts, its buttons, its files.

Tables, files and responses to interactions stand beside it; most replies have none of them.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cachetools import FIFOCache

from adapters.base import is_substitute, key_of
from adapters.chat.buttons import AnswerButtons, ShownButton, buttons_below, buttons_of
from adapters.chat.live import SECONDS_PER_EDIT
from adapters.chat.parts import Rendered, Upload, collect, to_parts
from adapters.discord.sending.history import NONCE_SECONDS, find_live, find_posted, is_same_part
from adapters.discord.sending.response_writer import ASIDE, INTERACTIONS, PRIVATE, SUPPRESS_EMBEDS, ResponseWriter
from adapters.discord.sending.tables import tables_to_blocks
from adapters.discord.sending.uploads import DEFAULT_BYTES, UploadLimits, choose_uploads
from adapters.discord.transport.rest import (
    CANNOT_READ_HISTORY,
    GONE,
    MISSING_PERMISSIONS,
    TOO_LARGE,
    USUAL,
    Json,
    Manner,
    Refused,
    Rest,
    insist,
)
from shared.errors import Unavailable
from shared.log import get_logger
from shared.messages import Place
from shared.tasks import run_on_text
from shared.text import abbreviate, is_one_message

if TYPE_CHECKING:
    from agent.app import App
    from agent.commands import CommandReply
    from agent.queue.outbox import Reply

# A nonce has at most 25 characters; the number of a part and a suffix follow these.
NONCE_DIGITS, REMEMBERED_EDITS = 16, 1000
MESSAGE_LIMIT = 2000
MOST_PARTS = 6
PREVIEW_CHARS = 1500
MOST_BUTTONS, IN_A_ROW, LABEL_CHARS = 20, 5, 40
BLUE, GREY, GREEN, RED = 1, 2, 3, 4
COLOURS = {"choice": BLUE, "main": BLUE, "plain": GREY, "yes": GREEN, "no": RED}

log = get_logger()

# Messages, each with its files.
Bodies = list[tuple[Json, Sequence[Upload]]]


class Sender:
    """Posts the replies of one bot. `edit_times`: the monotonic time of each live message's latest edit."""

    def __init__(self, app: "App", rest: Rest) -> None:
        self.app, self.rest = app, rest
        self.edit_times: FIFOCache[str, float] = FIFOCache(REMEMBERED_EDITS)
        self._upload_limits = UploadLimits()

    async def withdraw(self, reply: "Reply") -> None:
        """Remove the live message, if there is one."""
        if (live := await find_live(self.rest, reply)) is None:
            return
        self.edit_times.pop(live, None)
        channel, path = reply.place.thread or reply.place.channel, "/channels/{channel_id}/messages/{message_id}"
        try:
            await self.rest.call("DELETE", path, channel_id=channel, message_id=live)
        except Refused as error:
            if error.platform_code not in GONE:
                raise

    async def post(self, reply: "Reply", nonce: str) -> str:
        """Post a reply and return the id of its last message; the nonce is followed by the number of the part."""
        last = self.edit_times.pop(reply.delivery.live_message_id or "", None)
        if last is not None:
            # The final text is an edit as well: it has to come a second after the previous one.
            await asyncio.sleep(max(0.0, last + SECONDS_PER_EDIT - self.app.clock.monotonic()))
        manner = Manner(check=reply.check_claim)
        writer = writer_for(self.rest, reply.place, reply.reply_to, was_tried=reply.was_tried, manner=manner)
        if isinstance(writer, ChannelWriter) and reply.was_tried and reply.age > NONCE_SECONDS:
            writer.earlier_messages = await find_posted(self.rest, reply)
        # Private follow-ups can't be looked up and have no nonce: the whole answer is in the response, which is edited.
        most_parts = 1 if isinstance(writer, ResponseWriter) and writer.is_private else MOST_PARTS
        rows = to_rows(buttons_below(reply, self.app.clock.now()))
        ids, limits, may_change = list[str](), self._upload_limits, not is_substitute(reply)
        max_bytes = await limits.find(self.rest, reply.place.server, reply.files) if reply.files else DEFAULT_BYTES
        while True:
            parts, uploads = await _draft(self.app, reply, max_bytes, most_parts=most_parts)
            bodies = to_messages(parts, uploads, rows, allows_mentions=reply.delivery.allows_mentions)
            try:
                # Only the messages that do not exist yet.
                for index, (body, files) in list(enumerate(bodies))[len(ids) :]:
                    live = reply.delivery.live_message_id if index == 0 else None
                    ids.append(
                        await _write_one(
                            writer, body, files, live=live, nonce=f"{nonce}-{index}", may_change=may_change
                        )
                    )
                return ids[-1]
            except Refused as error:
                refusal = error
            if refusal.platform_code in GONE and isinstance(writer, ResponseWriter):
                # The response to a command can be edited for 15 minutes; afterwards an ordinary message is posted.
                place, asker = reply.place, reply.delivery.asker
                if writer.is_private and not place.is_direct and asker is not None:
                    place = Place(place.platform, None, await self.rest.open_direct(asker))
                writer = ChannelWriter(self.rest, place, None, manner=manner)
                continue
            if not uploads or refusal.platform_code not in {TOO_LARGE, MISSING_PERMISSIONS}:
                raise refusal
            is_too_large = refusal.platform_code == TOO_LARGE
            max_bytes = limits.note_refusal(reply.place.server, max_bytes) if is_too_large else 0


async def _draft(
    app: "App", reply: "Reply", max_bytes: int, *, most_parts: int
) -> tuple[Sequence[str], Sequence[Upload]]:
    """Return the parts, and the files of at most `max_bytes` bytes each; 0 means no files."""
    text, uploads = reply.content, list[Upload]()
    if reply.files:
        uploads, links = await choose_uploads(app, reply.files, max_bytes)
        text = "\n".join([text, *links])
    rendered = await run_on_text(partial(render, may_attach=max_bytes > 0, most_parts=most_parts), text)
    return rendered.parts, [*([rendered.file] if rendered.file else []), *uploads]


def to_messages(
    parts: Sequence[str], uploads: Sequence[Upload], rows: Sequence[Json], *, allows_mentions: bool = False
) -> Bodies:
    """Return the messages, each with its files; buttons and files belong to the last one."""
    # Only people whom the text names, if the persona may mention anybody; never everyone, never a role.
    mentions = {"parse": ["users"] if allows_mentions else [], "replied_user": allows_mentions}
    # An edit without `components` would keep the old buttons.
    bodies: Bodies = [({"content": part, "allowed_mentions": mentions, "components": []}, ()) for part in parts]
    bodies[-1] = (bodies[-1][0] | {"components": list(rows)}, uploads)
    return bodies


async def _write_one(
    writer: "MessageWriter", body: Json, files: Sequence[Upload], *, live: str | None, nonce: str, may_change: bool
) -> str:
    if live is not None:
        try:
            return str((await writer.change(live, body, files))["id"])
        except Refused as error:
            if error.platform_code not in GONE:
                raise
            # The live message was deleted; Discord still knows its nonce.
            nonce += "-again"
    message = await writer.find_answer() if isinstance(writer, ResponseWriter) and not may_change else None
    message = message or await writer.write(body, nonce, files)
    # Live text may be the whole answer already, with a Stop button and without files.
    is_same_text = message["content"].strip() == body["content"].strip()
    has_files = len(message.get("attachments", ())) == len(files)
    if may_change and not (is_same_text and has_files and _button_ids(message) == _button_ids(body)):
        # The message with this nonce is the live message of an attempt that died before it stored the message's id.
        message = await writer.change(str(message["id"]), body, files)
    return str(message["id"])


def _button_ids(message: Json) -> list[str]:
    return [button["custom_id"] for row in message.get("components", ()) for button in row["components"]]


def to_nonce(key: str) -> str:
    """Return the prefix of the nonces of what a key is for: for some minutes, Discord makes one message of a nonce."""
    return key[-NONCE_DIGITS:]


class ChannelWriter:
    """Messages of a channel, a thread or a direct conversation; the first one replies to the question.

    A nonce prevents a message from being posted twice for some minutes; after them `earlier_messages` are our messages
    that an earlier delivery may have posted.
    """

    def __init__(self, rest: Rest, place: Place, reply_to: str | None, manner: Manner = USUAL) -> None:
        self._rest, self._manner = rest, manner
        self._channel = place.thread or place.channel
        self.earlier_messages: list[Json] = []
        # A thread opened for a question does not contain the question, but has its id.
        self._reply_to = reply_to if reply_to and reply_to.isdecimal() and reply_to != place.thread else None

    async def write(self, body: Json, nonce: str, files: Sequence[Upload] = ()) -> Json:
        """Post a message and return it; with a known nonce, return the existing message."""
        message = next(
            (message for message in self.earlier_messages if is_same_part(message, body, self._reply_to)), None
        )
        if message is not None:
            # Two parts may have the same text.
            self.earlier_messages.remove(message)
            self._reply_to = None
            return message
        path = "/channels/{channel_id}/messages"
        body = body | {"nonce": nonce, "enforce_nonce": True, "flags": SUPPRESS_EMBEDS}
        if self._reply_to is not None:
            reference = {"message_id": self._reply_to, "channel_id": self._channel, "fail_if_not_exists": False}
            body["message_reference"] = reference
        try:
            message = await self._call("POST", path, body=body, files=files)
        except Refused as error:
            if error.platform_code != CANNOT_READ_HISTORY:
                raise
            # Without the permission to read the history a message can't be a reply.
            del body["message_reference"]
            message = await self._call("POST", path, body=body, files=files)
        # Not before: what did not arrive is tried again, and answers the question then.
        self._reply_to = None
        return message

    async def change(self, message_id: str, body: Json, files: Sequence[Upload] = ()) -> Json:
        """Edit a message."""
        path = "/channels/{channel_id}/messages/{message_id}"
        body = body | {"flags": SUPPRESS_EMBEDS}
        return await self._call("PATCH", path, body=body, files=files, message_id=message_id)

    async def type(self) -> None:
        """Show the typing indicator."""
        await self._rest.type(self._channel)

    async def _call(self, method: str, path: str, body: Json, files: Sequence[Upload], **ids: Any) -> Json:
        ids["channel_id"] = self._channel
        message: Json = await self._rest.call(method, path, body, files=files, manner=self._manner, **ids)
        return message


MessageWriter = ChannelWriter | ResponseWriter


def writer_for(
    rest: Rest, place: Place, reply_to: str | None, *, was_tried: bool = False, manner: Manner = USUAL
) -> MessageWriter:
    """Return the writer for a reply to this message, or to the interaction that `reply_to` names."""
    kind, _, token = (reply_to or "").partition(":")
    if kind in INTERACTIONS:
        is_private, follows = kind in PRIVATE, kind == ASIDE
        return ResponseWriter(rest, token, is_private=is_private, follows=follows, was_tried=was_tried, manner=manner)
    return ChannelWriter(rest, place, reply_to, manner=manner)


def render(text: str, *, may_attach: bool = True, most_parts: int = MOST_PARTS) -> Rendered:
    """Return the parts of an answer; a longer one becomes a file behind its beginning, if files are allowed."""
    markup = text.strip() or "\N{ZERO WIDTH SPACE}"
    if "|" in markup:
        markup = tables_to_blocks(markup)
    if is_one_message(markup, MESSAGE_LIMIT):
        return Rendered((markup,))
    # Without files there are as many parts as it takes.
    most = most_parts if may_attach else len(markup)
    return to_parts(text, markup, limit=MESSAGE_LIMIT, most=most, preview=PREVIEW_CHARS)


def to_rows(answer_buttons: AnswerButtons) -> list[Json]:
    """Return the component rows of an answer."""
    rows = (
        in_rows([to_component(button) for button in group])
        for group in (answer_buttons.choices, answer_buttons.actions)
    )
    return [row for group in rows for row in group]


def in_rows(components: Sequence[Json]) -> list[Json]:
    """Return buttons in rows, as many as a message can hold."""
    starts = range(0, len(components[:MOST_BUTTONS]), IN_A_ROW)
    return [{"type": 1, "components": list(components[:MOST_BUTTONS][start : start + IN_A_ROW])} for start in starts]


def to_component(button: ShownButton) -> Json:
    """Return one button."""
    component: Json = {"type": 2, "style": COLOURS[button.kind], "custom_id": button.button.to_id()}
    if button.is_emoji:
        return component | {"emoji": {"id": None, "name": button.label}}
    return component | {"label": abbreviate(button.label, LABEL_CHARS)}


async def replace_buttons(rest: Rest, answer: Any, answer_buttons: AnswerButtons) -> None:
    """Replace the buttons of a posted answer; `answer` is its outbox row."""
    if answer.adapter in rest.bot.other_adapters:
        # Every bot that reads the channel is told of an edit; only its author may change a message.
        return
    channel_id = answer.platform_thread_id or answer.platform_channel_id
    path, body = "/channels/{channel_id}/messages/{message_id}", {"components": list(to_rows(answer_buttons))}
    try:
        await insist(
            lambda: rest.call("PATCH", path, body, channel_id=channel_id, message_id=answer.platform_message_id)
        )
    except (Refused, Unavailable) as error:
        # The message may be deleted, or visible to its asker only.
        log.info("buttons_not_changed", cause=str(error))


async def to_bodies(app: "App", reply: "CommandReply", asker: str) -> Bodies:
    """Return the messages of a reply; files that are too large for any server are links."""
    uploads, others = await collect(app, reply.files, DEFAULT_BYTES)
    text = "\n".join([reply.text, *(f"{other.filename}: <{other.url}>" for other in others)])
    rows = to_rows(buttons_of(reply, asker, app.clock.now()))
    return to_messages(render(text, may_attach=False).parts, uploads, rows)


async def post_reply(app: "App", rest: Rest, reply: "Reply") -> None:
    """Post the reply to a typed command; a private one is a direct message."""
    nonce, where = to_nonce(key_of(app.secrets, reply)), f"<#{reply.place.thread or reply.place.channel}>"
    await Sender(app, rest).post(await reply.in_direct(rest.open_direct, where=where), nonce)
