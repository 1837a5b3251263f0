"""Sends replies: parts, files, reactions as buttons, live text by edits."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from adapters.chat.buttons import AnswerButtons, ShownButton, TurnButtons, buttons_below
from adapters.chat.parts import Rendered, Upload, collect, last_part, links_to, to_parts
from adapters.chat.reactions import STOP_EMOJI, STOP_HINT, Reactions, list_words, to_emoji
from adapters.matrix.client import Client, Json, Refused
from adapters.matrix.rooms import NAME
from agent.people.hops import installation_id
from shared.messages import Place
from shared.tasks import run_on_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

    from agent.app import App
    from agent.live.announcer import LiveTurn
    from agent.queue.outbox import Reply

# An event has at most 65,536 bytes, with the text twice.
MESSAGE_LIMIT, MOST_PARTS, PREVIEW_CHARS, MOST_HTML_BYTES = 8000, 3, 3000, 30_000
MOST_FILE_BYTES = 20 * 1024 * 1024
KEY = "parley.key"
ACCOUNT = re.compile(r"@[\w.=/+-]+:[\w.:-]*\w")


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


@dataclass(frozen=True, slots=True)
class Sender:
    """Posts the replies of one account."""

    app: "App"
    client: Client

    @property
    def reactions(self) -> Reactions:
        """Return what reactions to the agent's messages mean."""
        return Reactions(self.app.database, NAME)

    async def send(self, reply: "Reply") -> str | None:
        """Post a reply once, and return the id of its last message."""
        live, key = reply.delivery.live_message_id, self.to_key(reply.turn_id or f"{reply.reply_to or reply.id}")
        if reply.delivery.is_withdrawn:
            # Its id may not have come back.
            live = live or (await self._list_posted(reply.place.channel)).get(f"{key}-0")
            if live is not None:
                path = ("rooms", reply.place.channel, "redact", live, self.to_key(reply.turn_id, "withdrawn"))
                await self.client.call("PUT", path, {}, check=reply.check_claim)
            return None
        if (account := reply.direct_account) is not None:
            reply = replace(reply.in_direct(await self.client.open_direct(account)), reply_to=None)
        place, posted, last = reply.place, dict[str, str](), ""
        if reply.was_tried or reply.delivery.was_resumed:
            posted = await self._list_posted(place.channel)
        buttons = to_emoji(buttons_below(reply, self.app.clock.now()))
        draft, uploads = await self._draft(reply, list_words(buttons))
        for index, text in enumerate(draft.parts):
            content = to_content(text, allows_mentions=reply.delivery.allows_mentions) | {KEY: f"{key}-{index}"}
            # The live message of an attempt that died before it noted the id is among the posted ones.
            earlier = (live if index == 0 else None) or posted.get(f"{key}-{index}")
            if earlier is None:
                content |= to_relation(place, reply.reply_to if index == 0 else None)
                last = await self.client.send(place.channel, content, f"{key}-{index}", check=reply.check_claim)
                continue
            last = earlier
            if index == 0:
                edit = to_edit(earlier, content)
                await self.client.send(place.channel, edit, f"{key}-final", check=reply.check_claim)
        for index, upload in enumerate(uploads):
            if f"{key}-file-{index}" not in posted:
                await self._send_file(reply, upload, f"{key}-file-{index}")
        await self.offer(place, last, buttons)
        return last

    async def offer(self, place: Place, event_id: str, buttons: dict[str, ShownButton]) -> None:
        """Note what reactions to a message mean, and give those that are choices, to be pressed."""
        if not buttons:
            return
        await self.reactions.store(place, event_id, buttons)
        for emoji, shown in buttons.items():
            if shown.kind != "plain":
                relation = {"rel_type": "m.annotation", "event_id": event_id, "key": emoji}
                key = self.to_key(event_id, emoji)
                await self.client.send(place.channel, {"m.relates_to": relation}, key, kind="m.reaction")

    async def show_again(self, place: Place, answer: Any, buttons: AnswerButtons) -> None:
        """Offer below an answer to make it again; `answer` is its row of `outbox`."""
        if answer.platform_message_id:
            await self.offer(place, answer.platform_message_id, to_emoji(buttons))

    def to_key(self, *identity: object) -> str:
        """Return the transaction id of what this identity names in this installation."""
        text = json.dumps([installation_id(self.app.secrets), *identity])
        return f"parley-{hashlib.sha256(text.encode()).hexdigest()[:24]}"

    async def _draft(self, reply: "Reply", words: Sequence[str]) -> tuple[Rendered, Sequence[Upload]]:
        uploads, others = await collect(self.app, reply.files, MOST_FILE_BYTES, allows_empty=False)
        # Two blanks keep the lines of choices apart.
        choices = ["", "  \n".join(words)] if words else []
        text = "\n".join([reply.content.strip(), *links_to(others), *choices])
        rendered = await run_on_text(
            partial(to_parts, reply.content, limit=MESSAGE_LIMIT, most=MOST_PARTS, preview=PREVIEW_CHARS), text
        )
        return rendered, [*filter(None, [rendered.file]), *uploads]

    async def _list_posted(self, room: str) -> dict[str, str]:
        # The homeserver forgets transaction ids after some time, and those of another token at once.
        me = await self.client.find_me()
        page = await self.client.call("GET", ("rooms", room, "messages"), dir="b", limit=100)
        own = [event for event in page.get("chunk") or () if event.get("sender") == me and event.get("content")]
        # The edit of a message has the key as well.
        own = [event for event in own if KEY in event["content"] and "m.new_content" not in event["content"]]
        return {str(event["content"][KEY]): str(event["event_id"]) for event in own}

    async def _send_file(self, reply: "Reply", upload: Upload, key: str) -> None:
        await reply.check_claim()
        try:
            stored = await self.client.call("POST", ("upload",), upload.content, filename=upload.filename)
        except Refused as error:
            if error.errcode != "M_TOO_LARGE":
                raise
            link = next((file.url for file in reply.files if file.filename == upload.filename), "too large")
            content = to_content(f"{upload.filename}: {link}")
        else:
            content = {"msgtype": "m.file", "body": upload.filename, "filename": upload.filename, "m.mentions": {}}
            content |= {"url": stored["content_uri"], "info": {"size": len(upload.content)}}
        content |= {KEY: key} | to_relation(reply.place, reply.reply_to if reply.place.thread else None)
        await self.client.send(reply.place.channel, content, key, check=reply.check_claim)


@dataclass
class LiveMessage:
    """The message in which one answer grows."""

    sender: Sender
    turn: "LiveTurn"
    edits: int = 0

    async def type(self) -> None:
        """Show that the agent is writing."""
        path = ("rooms", self.turn.place.channel, "typing", await self.sender.client.find_me())
        await self.sender.client.call("PUT", path, {"typing": True, "timeout": 10_000})

    async def post(self, text: str) -> str:
        """Post the message with the key that the final text will use."""
        place, key = self.turn.place, f"{self.sender.to_key(self.turn.turn_id)}-0"
        content = self._draw(text) | {KEY: key} | to_relation(place, self.turn.reply_to)
        event_id = await self.sender.client.send(place.channel, content, key)
        stop = TurnButtons(self.turn.turn_id, self.turn.asker, self.sender.app.clock.now()).stop()
        await self.sender.offer(place, event_id, {STOP_EMOJI: replace(stop, kind="plain")})
        return event_id

    async def edit(self, message_id: str, text: str) -> None:
        """Show more of it."""
        self.edits += 1
        key = self.sender.to_key(self.turn.turn_id, "live", self.edits, text)
        await self.sender.client.send(self.turn.place.channel, to_edit(message_id, self._draw(text)), key)

    def _draw(self, text: str) -> Json:
        return to_content(f"{last_part(text, MESSAGE_LIMIT - 100)}\n\n{STOP_HINT}")
