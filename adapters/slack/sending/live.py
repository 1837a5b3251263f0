"""Live text: in a thread a stream with a card for each tool call, elsewhere a message that is edited."""

from typing import TYPE_CHECKING

from adapters.base import key_of
from adapters.chat.buttons import TurnButtons
from adapters.chat.live import LIVE_AFTER, show_live
from adapters.chat.parts import last_part
from adapters.slack.sending.buttons import stop_rows
from adapters.slack.sending.render import MESSAGE_LIMIT, neutralise_mentions, to_blocks, to_notice
from adapters.slack.sending.sent import find_sent, to_metadata
from adapters.slack.sending.sessions import set_processing
from adapters.slack.sending.shown import Shown, ShownMessages
from adapters.slack.sending.stream import Stream, stop_stream
from adapters.slack.transport.api import Json, RateLimited, Web
from shared.errors import ParleyError, Unavailable
from shared.log import get_logger

if TYPE_CHECKING:
    from agent.app import App
    from agent.live.announcer import LiveTurn

STOP_AFTER, CAN_STOP = 4.0, "This takes a while."

log = get_logger()


async def show(app: "App", web: Web, turn: "LiveTurn", live_messages: ShownMessages) -> None:
    """Show live text until the turn ends; an error of the platform ends the live text, not the turn."""
    live_message = _Message(app, web, turn, live_messages=live_messages)
    try:
        await live_message.type()
        # The one of an earlier attempt, which may have died before it stored the id.
        live = await turn.find_message()
        if live is None and turn.is_resumed:
            live = (await find_sent(app.database, web, turn, key=key_of(app.secrets, turn))).parts.get(0)
            if live is not None:
                await turn.keep_message(live)
        is_streamed = live is None and turn.place.thread is not None and web.can_stream
        # Where Slack refuses the stream, the answer is shown by edits.
        if is_streamed and await Stream(web, turn, live_messages).run():
            return
        if live is not None:
            await stop_stream(web, turn.place.channel, live)
    except ParleyError as error:
        log.info("live_message_ended", turn=turn.turn_id, cause=str(error))
        return
    await show_live(turn, live_message, after=0)


async def offer_stop(app: "App", web: Web, turn: "LiveTurn") -> None:
    """Offer the asker a stop button during a long stream, which can't have one itself; agents have Slack's own."""
    place = turn.place
    if place.thread is None or await turn.ends_within(STOP_AFTER - LIVE_AFTER) or not web.can_stream or web.is_agent:
        return
    await web.find(
        "chat.postEphemeral",
        channel=place.channel,
        thread_ts=place.thread,
        user=turn.asker.rpartition(":")[2],
        text=CAN_STOP,
        blocks=stop_rows(TurnButtons(turn.turn_id, turn.asker, app.clock.now())),
    )


class Unconfirmed(ParleyError):
    """Slack has not confirmed the live message, which may exist: a second one is not posted."""


class _Message:
    # A message that is edited at most once a second.
    def __init__(self, app: "App", web: Web, turn: "LiveTurn", live_messages: ShownMessages) -> None:
        self._app, self._web, self._turn, self._live_messages = app, web, turn, live_messages

    async def type(self) -> None:
        place = self._turn.place
        if place.thread is not None:
            self._live_messages.processing.add(self._turn.turn_id)
            await set_processing(self._web, place, self._turn.message.content)

    async def post(self, text: str) -> str:
        place = self._turn.place
        posting = self._web.call(
            "chat.postMessage",
            max_wait=0,
            channel=place.channel,
            thread_ts=place.thread,
            unfurl_links=False,
            unfurl_media=False,
            metadata=to_metadata(key_of(self._app.secrets, self._turn), 0),
            **self._body(text),
        )
        try:
            ts = await self._live_messages.post(self._web, self._turn, posting)
        except RateLimited:
            raise
        except Unavailable as error:
            raise Unconfirmed from error
        self._note(ts, text)
        return ts

    async def edit(self, message_id: str, text: str) -> None:
        if self._web.method_limits.has_spare(self._turn.place.channel, "chat.update"):
            await self._web.call(
                "chat.update", max_wait=0, channel=self._turn.place.channel, ts=message_id, **self._body(text)
            )
            self._note(message_id, text)

    def _body(self, text: str) -> Json:
        row = stop_rows(TurnButtons(self._turn.turn_id, self._turn.asker, self._app.clock.now()))
        body = _body(text)
        return body | {"blocks": [*body["blocks"], *row]}

    def _note(self, ts: str, text: str) -> None:
        self._live_messages.shown[ts] = Shown(is_stream=False, text=text, edited_at=self._app.clock.monotonic())


def _body(text: str) -> Json:
    part = last_part(text, MESSAGE_LIMIT, neutralise_mentions)
    return {"text": to_notice(part), "blocks": to_blocks(part)}
