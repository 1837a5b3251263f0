"""Sends replies: parts, files, reactions as buttons, live text by edits."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from adapters.chat.buttons import AGAIN, AnswerButtons, ShownButton, TurnButtons, buttons_below
from adapters.chat.parts import Upload, collect, split_text, with_file
from adapters.matrix.client import Client, Json, Refused
from adapters.matrix.rooms import NAME
from agent.people.hops import installation_id
from shared.db.statements import load_statements
from shared.messages import Place
from shared.tasks import run_on_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

    from agent.app import App
    from agent.live.announcer import LiveTurn
    from agent.queue.outbox import Reply

statements = load_statements(__file__)

# An event has at most 65,536 bytes, with the text twice.
MESSAGE_LIMIT, MOST_PARTS, PREVIEW_CHARS, MOST_HTML_BYTES = 8000, 3, 3000, 30_000
MOST_FILE_BYTES = 20 * 1024 * 1024
EMOJI = {"yes": "✅", "no": "❌", "Stop": "🛑"}
DIGITS = ("1️⃣", "2️⃣", "3️⃣", "4️⃣", "5️⃣", "6️⃣", "7️⃣", "8️⃣", "9️⃣", "🔟")
VARIANT, KEY = "\ufe0f", "parley.key"
ACCOUNT = re.compile(r"@[\w.=/+-]+:[\w.:-]*\w")
STOP_HINT = "🛑 stops it"


@cache
def _markdown() -> "MarkdownIt":
    # Only where an answer has to be rendered: its import takes 30 ms.
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False, "breaks": True})
    return markdown.enable(["table", "strikethrough"]).disable("image")


def to_content(text: str, *, allows_mentions: bool = False) -> Json:
    """Return a message: a notice, which no bot answers, with the HTML of its Markdown beside the plain text.

    It notifies only whom the text names, if that is allowed, and never the whole room.
    """
    accounts = sorted(set(ACCOUNT.findall(text))) if allows_mentions else []
    mentions = {"user_ids": accounts} if accounts else {}
    content: Json = {"msgtype": "m.notice", "body": text or "\N{ZERO WIDTH SPACE}", "m.mentions": mentions}
    html = _markdown().render(text).strip()
    if len(html.encode()) <= MOST_HTML_BYTES:
        content |= {"format": "org.matrix.custom.html", "formatted_body": html}
    return content


def to_relation(place: Place, reply_to: str | None) -> Json:
    """Return what makes a message a reply, and one of the place's thread."""
    is_event = bool(reply_to and reply_to.startswith("$"))
    relation: Json = {"m.in_reply_to": {"event_id": reply_to}} if is_event else {}
    if place.thread is not None:
        relation |= {"rel_type": "m.thread", "event_id": place.thread, "is_falling_back": False}
    return {"m.relates_to": relation} if relation else {}


def to_edit(event_id: str, content: Json) -> Json:
    """Return the edit that replaces a message by this one."""
    relation = {"rel_type": "m.replace", "event_id": event_id}
    return content | {"body": f"* {content['body']}", "m.new_content": content, "m.relates_to": relation}


def to_emoji(buttons: AnswerButtons) -> dict[str, ShownButton]:
    """Return the buttons by the emoji that presses them."""
    digits, by_emoji = iter(DIGITS), dict[str, ShownButton]()
    for shown in (*buttons.choices, *buttons.actions):
        emoji = shown.label if shown.is_emoji else EMOJI.get(shown.kind) or EMOJI.get(shown.label)
        emoji = "🔄" if shown.button.action == AGAIN else emoji or next(digits, None)
        if emoji:
            by_emoji[emoji] = shown
    return by_emoji


class Sender:
    """Posts the replies of one account."""

    def __init__(self, app: "App", client: Client) -> None:
        self.app, self.client = app, client

    async def send(self, reply: "Reply") -> str | None:
        """Post a reply once, and return the id of its last message."""
        place, reply_to, live = reply.place, reply.reply_to, reply.delivery.live_message_id
        key = self.to_key(reply.turn_id or f"reply-{reply.id}")
        if reply.delivery.is_withdrawn:
            # Its id may not have come back.
            live = live or (await self._list_posted(place.channel)).get(f"{key}-0")
            if live is not None:
                path = ("rooms", place.channel, "redact", live, self.to_key(reply.turn_id, "withdrawn"))
                await self.client.call("PUT", path, {}, check=reply.check_claim)
            return None
        if (account := reply.direct_account) is not None:
            place, reply_to = Place(NAME, None, await self.client.open_direct(account), is_direct=True), None
            reply = replace(reply, place=place, delivery=replace(reply.delivery, asker=account))
        posted = await self._list_posted(place.channel) if reply.was_tried or reply.delivery.was_resumed else {}
        buttons = to_emoji(buttons_below(reply, self.app.clock.now()))
        parts, uploads = await self._draft(reply, buttons)
        for index, part in enumerate(parts):
            content = to_content(part, allows_mentions=reply.delivery.allows_mentions)
            part_key = f"{key}-{index}"
            # The live message of an attempt that died before it noted the id is among the posted ones.
            before = (live or posted.get(part_key)) if index == 0 else posted.get(part_key)
            content |= {KEY: part_key}
            if before is None:
                content |= to_relation(place, reply_to if index == 0 else None)
                last = await self.client.send(place.channel, content, part_key, check=reply.check_claim)
            elif index == 0:
                edit, last = to_edit(before, content), before
                await self.client.send(place.channel, edit, f"{part_key}-final", check=reply.check_claim)
            else:
                last = before
        for index, upload in enumerate(uploads):
            await self._send_file(reply, upload, key=f"{key}-file-{index}", posted=posted)
        await self.offer(place, last, buttons)
        return last

    async def offer(self, place: Place, event_id: str, buttons: dict[str, ShownButton]) -> None:
        """Note what reactions to a message mean, and give those that are choices, to be pressed."""
        if not buttons:
            return
        ids = {emoji.replace(VARIANT, ""): shown.button.to_id() for emoji, shown in buttons.items()}
        row = {"event_id": event_id, "room": place.channel, "thread": place.thread, "buttons": json.dumps(ids)}
        async with self.app.database.statement() as session:
            await session.execute(statements.store_buttons, row)
        for emoji, shown in buttons.items():
            if shown.kind != "plain":
                relation = {"rel_type": "m.annotation", "event_id": event_id, "key": emoji}
                key = self.to_key(event_id, emoji)
                await self.client.send(place.channel, {"m.relates_to": relation}, key, kind="m.reaction")

    def to_key(self, *identity: object) -> str:
        """Return the transaction id of what this identity names in this installation."""
        text = json.dumps([installation_id(self.app.secrets), *identity])
        return f"parley-{hashlib.sha256(text.encode()).hexdigest()[:24]}"

    async def _draft(self, reply: "Reply", buttons: dict[str, ShownButton]) -> tuple[Sequence[str], Sequence[Upload]]:
        uploads, others = await collect(self.app, reply.files, MOST_FILE_BYTES, allows_empty=False)
        links = [f"[{file.filename}]({file.url})" for file in others]
        text = "\n".join([reply.content.strip(), *links, *self._words(buttons)])
        parts = await run_on_text(partial(split_text, limit=MESSAGE_LIMIT), text)
        if len(parts) <= MOST_PARTS:
            return parts, uploads
        rendered = with_file(reply.content, text, PREVIEW_CHARS)
        return rendered.parts, [*filter(None, [rendered.file]), *uploads]

    def _words(self, buttons: dict[str, ShownButton]) -> list[str]:
        words = [f"{emoji} {shown.label}" for emoji, shown in buttons.items() if shown.kind not in ("plain", "main")]
        return ["", "  \n".join(words)] if words else []

    async def _list_posted(self, room: str) -> dict[str, str]:
        # The homeserver forgets transaction ids after some time, and those of another token at once.
        me = await self.client.find_me()
        page = await self.client.call("GET", ("rooms", room, "messages"), dir="b", limit=100)
        return {
            str(event["content"][KEY]): str(event["event_id"])
            for event in page.get("chunk") or ()
            if event.get("sender") == me
            and KEY in (event.get("content") or {})
            # The edit of a message has the key as well.
            and "m.new_content" not in event["content"]
        }

    async def _send_file(self, reply: "Reply", upload: Upload, *, key: str, posted: dict[str, str]) -> None:
        if key in posted:
            return
        await reply.check_claim()
        try:
            stored = await self.client.call("POST", ("upload",), upload.content, filename=upload.filename)
        except Refused as error:
            if error.errcode != "M_TOO_LARGE":
                raise
            link = next((file.url for file in reply.files if file.filename == upload.filename), "too large")
            content = to_content(f"{upload.filename}: {link}")
        else:
            facts = {"size": len(upload.content)}
            content = {"msgtype": "m.file", "body": upload.filename, "url": stored["content_uri"], "info": facts}
            content |= {"filename": upload.filename, "m.mentions": {}}
        content |= {KEY: key} | to_relation(reply.place, reply.reply_to if reply.place.thread else None)
        await self.client.send(reply.place.channel, content, key, check=reply.check_claim)

    async def show_again(self, place: Place, answer: Any, buttons: AnswerButtons) -> None:
        """Offer below an answer to make it again; `answer` is its row of `outbox`."""
        if answer.platform_message_id:
            await self.offer(place, answer.platform_message_id, to_emoji(buttons))


class LiveMessage:
    """The message in which one answer grows."""

    def __init__(self, sender: Sender, turn: "LiveTurn") -> None:
        self._sender, self._turn, self._edits = sender, turn, 0

    async def type(self) -> None:
        """Show that the agent is writing."""
        client = self._sender.client
        path = ("rooms", self._turn.place.channel, "typing", await client.find_me())
        await client.call("PUT", path, {"typing": True, "timeout": 10_000})

    async def post(self, text: str) -> str:
        """Post the message with the key that the final text will use."""
        key = f"{self._sender.to_key(self._turn.turn_id)}-0"
        place = self._turn.place
        content = to_content(self._cut(text)) | {KEY: key} | to_relation(place, self._turn.reply_to)
        event_id = await self._sender.client.send(place.channel, content, key)
        stop = TurnButtons(self._turn.turn_id, self._turn.asker, self._sender.app.clock.now()).stop()
        await self._sender.offer(place, event_id, to_emoji(AnswerButtons((), [replace(stop, kind="plain")])))
        return event_id

    async def edit(self, message_id: str, text: str) -> None:
        """Show more of it."""
        self._edits += 1
        key = self._sender.to_key(self._turn.turn_id, "live", self._edits, text)
        await self._sender.client.send(self._turn.place.channel, to_edit(message_id, to_content(self._cut(text))), key)

    def _cut(self, text: str) -> str:
        parts = split_text(text[-MESSAGE_LIMIT + 100 :], MESSAGE_LIMIT - 100)
        return f"{parts[-1]}\n\n{STOP_HINT}"
