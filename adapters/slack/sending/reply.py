"""Sends a reply: a message in the question's thread, the end of its stream, or edits; parts and files."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from adapters.base import is_substitute
from adapters.chat.live import SECONDS_PER_EDIT
from adapters.chat.parts import Rendered, Upload, collect, links_to
from adapters.slack.sending.buttons import find_clicked_rows
from adapters.slack.sending.render import WHOLE_LIMIT, render, to_blocks, to_notice
from adapters.slack.sending.sent import AlreadySent, find_sent, remove, to_metadata
from adapters.slack.sending.sessions import status_after
from adapters.slack.sending.shown import Shown, ShownMessages
from adapters.slack.sending.stream import stop_stream
from adapters.slack.transport.api import Json, Refused, Web
from agent.queue.outbox import without_late_note
from shared.log import get_logger
from shared.tasks import run_on_text

if TYPE_CHECKING:
    from agent.app import App
    from agent.queue.outbox import Reply

MOST_FILE_BYTES = 20 * 1024 * 1024

TOO_LONG = frozenset({"msg_too_long", "msg_blocks_too_long", "markdown_text_too_long"})
NO_BLOCKS = frozenset({"invalid_blocks", "invalid_blocks_format"})
GONE = frozenset({"message_not_found"})
STREAMS_STILL = "streaming_state_conflict"

log = get_logger()


class Draft(Struct, frozen=True):
    """A reply and what is sent with it; `rows` are the blocks with its buttons."""

    reply: "Reply"
    key: str
    rows: Sequence[Json]
    uploads: Sequence[Upload]
    links: Sequence[str]
    cards: Sequence[Json] = ()

    async def render(self, *, is_short: bool = False) -> Rendered:
        """Return the parts; `is_short`: a file behind its beginning."""
        text = "\n".join([self.reply.content, *self.links])
        return await run_on_text(
            partial(render, allows_mentions=self.reply.delivery.allows_mentions, is_short=is_short), text
        )

    def body(self, rendered: Rendered, index: int) -> Json:
        """Return one part as a message: cards first, buttons last."""
        part = rendered.parts[index]
        blocks = [*(self.cards if index == 0 else ()), *to_blocks(part)]
        if index == len(rendered.parts) - 1:
            blocks += self.rows
        return {"text": to_notice(part), "blocks": blocks, "metadata": to_metadata(self.key, index)}


async def send(
    app: "App", web: Web, reply: "Reply", *, key: str, rows: Sequence[Json], live_messages: ShownMessages
) -> str:
    """Post a reply once and return the id of the last message."""
    uploads, links = list[Upload](), list[str]()
    if reply.files:
        # Slack refuses empty files.
        uploads, others = await collect(app, reply.files, MOST_FILE_BYTES, allows_empty=False)
        links = links_to(others)
    live_message = await live_messages.find_posted(reply.turn_id) if reply.turn_id in live_messages.posting else None
    delivery = reply.delivery
    if live_message is not None and delivery.live_message_id is None:
        delivery = replace(delivery, live_message_id=live_message.ts)
        reply = replace(reply, delivery=delivery)
    content = live_messages.shown.pop(delivery.live_message_id or "", None)
    before = AlreadySent()
    if reply.was_tried or (delivery.live_message_id is None and (delivery.was_resumed or live_message is not None)):
        before = await find_sent(app.database, web, reply, key=key)
        if before.parts and is_substitute(reply):
            return before.parts[max(before.parts)]
        if before.parts:
            # It came in time.
            reply = replace(reply, content=without_late_note(reply.content))
    cards: list[Json] = []
    if content is not None:
        cards = [
            {"type": "task_card", "task_id": card["id"], "title": card["title"], "status": _final(card, content)}
            for card in (content.cards | content.ended).values()
        ]
    draft = Draft(reply, key, rows, uploads=uploads, links=links, cards=cards)
    writer = _MessageWriter(app, web, draft, content=content, before=before)
    try:
        last = await writer.write(await draft.render())
    except Refused as error:
        if error.platform_code not in TOO_LONG:
            raise
        last = await writer.write(await draft.render(is_short=True))
    if writer.has_ended_session:
        live_messages.processing.discard(reply.turn_id)
    return last


async def withdraw(web: Web, reply: "Reply", live_messages: ShownMessages) -> None:
    """Remove the live message of a reply whose question was deleted."""
    live_message = await live_messages.find_posted(reply.turn_id) if reply.turn_id in live_messages.posting else None
    live = reply.delivery.live_message_id or (live_message.ts if live_message is not None else None)
    if live is not None:
        live_messages.shown.pop(live, None)
        await remove(web, reply.place.channel, live)


def _final(card: Json, content: Shown) -> str:
    status = content.ended.get(card["id"], card)["status"]
    # When the turn ends, no tool call is running any more.
    return "complete" if status == "in_progress" else str(status)


class _MessageWriter:
    def __init__(self, app: "App", web: Web, draft: Draft, content: Shown | None, before: AlreadySent) -> None:
        self._app, self._web, self._draft, self._content, self._before = app, web, draft, content, before
        self._place = draft.reply.place
        # Whether the end of the stream has also ended the status of the agent session.
        self.has_ended_session = False

    async def write(self, rendered: Rendered) -> str:
        """Write all parts, then the files; return the id of the last part."""
        ts = ""
        for index in range(len(rendered.parts)):
            # A second attempt, with a file instead of parts, continues with the existing messages.
            ts = self._before.parts[index] = await self._write_part(rendered, index)
        for surplus_ts in {*self._before.surplus} - {*self._before.parts.values()}:
            await remove(self._web, self._place.channel, surplus_ts)
        uploads = [*([rendered.file] if rendered.file else []), *self._draft.uploads]
        new_uploads = [upload for upload in uploads if not self._before.has_file(upload)]
        if new_uploads:
            items = [
                {"content": upload.content, "filename": upload.filename, "title": upload.filename}
                for upload in new_uploads
            ]
            where: Json = {"channel": self._place.channel, "thread_ts": self._place.thread}
            try:
                await self._call("files.upload.v2", file_uploads=items, **where)
            except Refused as error:
                log.warning("slack_files_refused", reply=self._draft.reply.id, cause=str(error))
                last = len(rendered.parts) - 1
                with_links = "\n".join([rendered.parts[last], *links_to(self._draft.reply.files)])
                await self._change_again(ts, Rendered((*rendered.parts[:last], with_links)), last)
        return ts

    async def _write_part(self, rendered: Rendered, index: int) -> str:
        body = self._draft.body(rendered, index)
        live = self._draft.reply.delivery.live_message_id if index == 0 else None
        before = self._before.parts.get(index)
        if before is not None and before == live:
            before = None
        if live is not None and before is None and (ended := await self._end_live(live, rendered, body)):
            return ended
        if before is not None:
            # The message exists, but may still contain live text.
            return await self._change_again(before, rendered, index)
        where: Json = {"channel": self._place.channel, "thread_ts": self._place.thread}
        quiet = {"unfurl_links": False, "unfurl_media": False}
        try:
            message = await self._call("chat.postMessage", **where, **quiet, **body)
        except Refused as error:
            if error.platform_code not in NO_BLOCKS:
                raise
            log.warning("slack_blocks_refused", reply=self._draft.reply.id, cause=str(error))
            plain = {"text": to_notice(rendered.parts[index], WHOLE_LIMIT), "metadata": body["metadata"]}
            message = await self._call("chat.postMessage", **where, **quiet, **plain)
        return str(message["ts"])

    async def _end_live(self, ts: str, rendered: Rendered, body: Json) -> str | None:
        """Replace the live text by the answer; return None if that is not possible, and the answer has to be posted."""
        content = self._content
        try:
            if content is not None and content.is_stream and await self._end_stream(ts, content, rendered, body=body):
                return ts
            if content is not None and content.edited_at:
                wait = content.edited_at + SECONDS_PER_EDIT - self._app.clock.monotonic()
                await asyncio.sleep(max(0.0, wait))
            return await self._change(ts, body)
        except Refused as error:
            if error.platform_code in TOO_LONG:
                raise
            log.info("slack_live_message_replaced", reply=self._draft.reply.id, cause=str(error))
            if error.platform_code not in GONE:
                await remove(self._web, self._place.channel, ts)
            return None

    async def _end_stream(self, ts: str, content: Shown, rendered: Rendered, body: Json) -> bool:
        """End the stream with the rest of the answer; return False if Slack refuses that or other text was streamed."""
        part = rendered.parts[0]
        if not content.is_certain or not part.startswith(content.text) or len(rendered.parts) > 1:
            await stop_stream(self._web, self._place.channel, ts)
            return False
        rest = part[len(content.text) :]
        ends = [
            card | {"status": _final(card, content)}
            for card in (content.ended | content.cards).values()
            if content.cards.get(card["id"], {}).get("status") in (None, "in_progress")
        ]
        pieces = [*ends, *([{"type": "markdown_text", "text": rest}] if rest else [])]
        more: Json = {"chunks": pieces} if pieces else {}
        rows = {"blocks": list(self._draft.rows)} if self._draft.rows else {}
        last: Json = {"metadata": body["metadata"], "check": self._draft.reply.check_claim} | more | rows
        if self._web.is_agent:
            last["session_status"] = status_after(self._draft.reply)
        try:
            is_ended = await stop_stream(self._web, self._place.channel, ts, **last)
            self.has_ended_session = is_ended and self._web.is_agent
            return is_ended
        except Refused as error:
            # Without the rest it may still end, and then be changed.
            log.info("slack_stream_not_ended", reply=self._draft.reply.id, cause=str(error))
            return False

    async def _call(self, method: str, **arguments: Any) -> Json:
        """Make a call that shows something of the reply, unless another process sends it meanwhile."""
        return await self._web.call(method, check=self._draft.reply.check_claim, **arguments)

    async def _change(self, ts: str, body: Json) -> str:
        where: Json = {"channel": self._place.channel, "ts": ts}
        try:
            await self._call("chat.update", **where, **body)
        except Refused as error:
            if error.platform_code != STREAMS_STILL:
                raise
            # The process that streamed it has died.
            await stop_stream(self._web, self._place.channel, ts)
            await self._call("chat.update", **where, **body)
        return ts

    async def _change_again(self, ts: str, rendered: Rendered, index: int) -> str:
        """Change a message whose buttons somebody may have clicked already, also during the change."""
        rows, new_rows = None, await self._find_rows()
        while new_rows != rows:
            rows = new_rows
            await self._change(ts, replace(self._draft, rows=rows).body(rendered, index))
            new_rows = await self._find_rows()
        return ts

    async def _find_rows(self) -> Sequence[Json]:
        if not self._draft.rows:
            return ()
        rows_after_click = await find_clicked_rows(self._app.database, self._draft.reply)
        return self._draft.rows if rows_after_click is None else rows_after_click
