"""Live text: in a thread a stream with a card for each tool call, elsewhere a message that is edited.

Streamed text can't be withdrawn: the beginning of a possible mention is held back until it is complete.
"""

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adapters.chat.buttons import TurnButtons
from adapters.chat.live import LIVE_AFTER, SECONDS_PER_EDIT, show_live
from adapters.chat.splitting import split_text
from adapters.slack.sending.buttons import stop_rows
from adapters.slack.sending.render import MESSAGE_LIMIT, neutralise_mentions, to_blocks, to_notice
from adapters.slack.transport.api import Json, Refused, Web
from shared.errors import ParleyError
from shared.log import get_logger

if TYPE_CHECKING:
    from agent.app import App
    from agent.events.live import LiveTurn

REMEMBERED = 1000
# The typing status replaces no message, so it may be shown sooner than live text.
TYPING_AFTER = 0.6
STATUS = "is thinking …"
STOP_AFTER, CAN_STOP = 4.0, "This takes a while."
# The errors of a workspace without streaming, after which it is not tried again.
NO_STREAMS = frozenset({"unknown_method", "feature_not_enabled", "missing_scope", "not_allowed_token_type"})
NOT_STREAMING = frozenset({"message_not_in_streaming_state", "message_not_found"})
OPEN_END = re.compile(r"<[!@#]?\Z")

log = get_logger()


@dataclass
class Shown:
    """The content of a live message: its text, and its cards by call id.

    `edited_at` is the monotonic time of the latest edit.
    """

    is_stream: bool
    text: str = ""
    cards: dict[str, Json] = field(default_factory=dict)
    edited_at: float = 0.0


class ShownMessages:
    """The live messages of this process, for sending the final text."""

    def __init__(self) -> None:
        self._shown: OrderedDict[str, Shown] = OrderedDict()

    def keep(self, ts: str, shown: Shown) -> None:
        """Store the content of a message."""
        self._shown[ts] = shown
        if len(self._shown) > REMEMBERED:
            self._shown.popitem(last=False)

    def pop(self, ts: str | None) -> Shown | None:
        """Remove and return the content of a message; None if another process has shown it."""
        return self._shown.pop(ts or "", None)


async def show(app: "App", web: Web, turn: "LiveTurn", kept: ShownMessages) -> None:
    """Show live text until the turn ends; an error of the platform ends the live text, not the turn."""
    live_message = _Message(app, web, turn, kept=kept)
    try:
        if await turn.ends_within(TYPING_AFTER):
            return
        await live_message.type()
        if await turn.ends_within(LIVE_AFTER - TYPING_AFTER):
            return
        if turn.place.thread is not None and web.can_stream and await turn.find_message() is None:
            await _Stream(app, web, turn, kept=kept).run()
            return
        if (found := await turn.find_message()) is not None:
            await stop_stream(web, turn.place.channel, found)
    except ParleyError as error:
        log.info("live_message_ended", turn=turn.turn_id, cause=str(error))
        return
    await show_live(turn, live_message)


async def offer_stop(app: "App", web: Web, turn: "LiveTurn") -> None:
    """Offer the asker a stop button during a long stream, which can't have buttons before its end."""
    place = turn.place
    if place.thread is None or await turn.ends_within(STOP_AFTER) or not web.can_stream:
        return
    await web.find(
        "chat.postEphemeral",
        channel=place.channel,
        thread_ts=place.thread,
        user=turn.asker.rpartition(":")[2],
        text=CAN_STOP,
        blocks=stop_rows(TurnButtons(turn.turn_id, turn.asker, app.clock.now())),
    )


async def stop_stream(web: Web, channel: str, ts: str, **last: Any) -> bool:
    """End a stream with its last text and blocks; return False if it has ended already."""
    try:
        await web.call("chat.stopStream", channel=channel, ts=ts, **last)
    except Refused as error:
        if error.slack_code not in NOT_STREAMING:
            raise
        return False
    return True


class _Message:
    # A message that is edited at most once a second.
    def __init__(self, app: "App", web: Web, turn: "LiveTurn", kept: ShownMessages) -> None:
        self._app, self._web, self._turn, self._kept = app, web, turn, kept

    async def type(self) -> None:
        place = self._turn.place
        if place.thread is not None:
            where: Json = {"channel_id": place.channel, "thread_ts": place.thread}
            await self._web.find("assistant.threads.setStatus", status=STATUS, **where)

    async def post(self, text: str) -> str:
        place = self._turn.place
        made = await self._web.call(
            "chat.postMessage",
            max_wait=0,
            channel=place.channel,
            thread_ts=place.thread,
            unfurl_links=False,
            unfurl_media=False,
            metadata=to_metadata(self._turn.turn_id, 0, 0),
            **self._body(text),
        )
        self._note(str(made["ts"]), text)
        return str(made["ts"])

    async def edit(self, message_id: str, text: str) -> None:
        if self._web.method_limits.has_spare("chat.update"):
            await self._web.call(
                "chat.update", max_wait=0, channel=self._turn.place.channel, ts=message_id, **self._body(text)
            )
            self._note(message_id, text)

    def _body(self, text: str) -> Json:
        row = stop_rows(TurnButtons(self._turn.turn_id, self._turn.asker, self._app.clock.now()))
        body = _body(text)
        return body | {"blocks": [*body["blocks"], *row]}

    def _note(self, ts: str, text: str) -> None:
        self._kept.keep(ts, Shown(is_stream=False, text=text, edited_at=self._app.clock.monotonic()))


class _Stream:
    # A message that is streamed.
    def __init__(self, app: "App", web: Web, turn: "LiveTurn", kept: ShownMessages) -> None:
        self._app, self._web, self._turn, self._kept = app, web, turn, kept
        self._shown = Shown(is_stream=True)
        self._step = ""
        self._ts: str | None = None

    async def run(self) -> None:
        while True:
            pieces = self._list_pieces()
            if pieces and not await self._send(pieces):
                return
            if await self._turn.ends_within(SECONDS_PER_EDIT):
                return

    def _list_pieces(self) -> list[Json]:
        # Computed but not stored yet: what can't be sent now is sent with the next update.
        cards = self._list_cards()
        text = self._new_text()[0]
        return [*cards.values(), *([{"type": "markdown_text", "text": text}] if text else [])]

    def _list_cards(self) -> dict[str, Json]:
        cards = {each: to_card(self._turn, each) for each in self._turn.calls}
        return {each: card for each, card in cards.items() if self._shown.cards.get(each) != card}

    def _new_text(self) -> tuple[str, str]:
        now = OPEN_END.sub("", neutralise_mentions(self._turn.text.strip()))
        if now.startswith(self._step):
            return now[len(self._step) :], now
        # After a reset the streamed text stays until the final answer replaces it.
        return ("\n\n" if self._shown.text else "") + now, now

    async def _send(self, pieces: list[Json]) -> bool:
        new, step = self._new_text()
        if len(self._shown.text) + len(new) > MESSAGE_LIMIT:
            # The end of a long answer is posted with the whole.
            return False
        where = {"channel": self._turn.place.channel, "chunks": pieces}
        if self._ts is None:
            if not self._web.method_limits.has_spare("chat.startStream", "chat.stopStream"):
                return True
            await self._start(where)
        elif self._web.method_limits.has_spare("chat.appendStream"):
            await self._web.call("chat.appendStream", max_wait=0, ts=self._ts, **where)
        else:
            return True
        self._shown.cards |= self._list_cards()
        self._shown.text, self._step = self._shown.text + new, step
        return True

    async def _start(self, where: Json) -> None:
        team, _, user = self._turn.asker.rpartition(":")
        try:
            made = await self._web.call(
                "chat.startStream",
                max_wait=0,
                thread_ts=self._turn.place.thread,
                recipient_user_id=user,
                recipient_team_id=team or self._web.token.team_id,
                task_display_mode="timeline",
                **where,
            )
        except Refused as error:
            if error.slack_code in NO_STREAMS:
                self._web.can_stream = False
            raise
        self._ts = str(made["ts"])
        self._kept.keep(self._ts, self._shown)
        await self._turn.keep_message(self._ts)


def to_card(turn: "LiveTurn", call_id: str) -> Json:
    """Return the card of one tool call."""
    failed = turn.ended_tools.get(call_id)
    status = "in_progress" if failed is None else "error" if failed else "complete"
    return {
        "type": "task_update",
        "id": call_id,
        "title": turn.calls[call_id].replace("__", ".")[:250],
        "status": status,
    }


def to_metadata(turn_id: int, reply_id: int, part: int) -> Json:
    """Return the metadata of a message: the turn, or the reply if there is no turn, and the part's number."""
    of = {"turn": turn_id} if turn_id else {"reply": reply_id}
    return {"event_type": "parley_reply", "event_payload": {**of, "part": part}}


def _body(text: str) -> Json:
    parts = split_text(neutralise_mentions(text), MESSAGE_LIMIT - 2)
    part = parts[0] if len(parts) == 1 else f"…\n{parts[-1]}"
    return {"text": to_notice(part), "blocks": to_blocks(part)}
