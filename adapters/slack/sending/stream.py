"""A live message that is streamed, with a card for each tool call.

Streamed text can't be withdrawn: the beginning of a possible mention is held back until it is complete.
"""

import re
from typing import TYPE_CHECKING, Any

from adapters.chat.live import SECONDS_PER_EDIT
from adapters.slack.sending.render import MESSAGE_LIMIT, neutralise_mentions
from adapters.slack.sending.shown import Shown, ShownMessages
from adapters.slack.transport.api import Json, RateLimited, Refused, Web
from shared.log import get_logger

if TYPE_CHECKING:
    from agent.live.announcer import LiveTurn

# The errors of a workspace without streaming, after which it is not tried again.
NO_STREAMS = frozenset({"unknown_method", "feature_not_enabled", "missing_scope", "not_allowed_token_type"})
NOT_STREAMING = frozenset({"message_not_in_streaming_state", "message_not_found"})
OPEN_END = re.compile(r"<[!@#]?\Z")

log = get_logger()


async def stop_stream(web: Web, channel: str, ts: str, **last: Any) -> bool:
    """End a stream with its last text and blocks; return False if it has ended already."""
    try:
        await web.call("chat.stopStream", channel=channel, ts=ts, **last)
    except Refused as error:
        if error.platform_code not in NOT_STREAMING:
            raise
        return False
    return True


class Stream:
    """A message that is streamed."""

    def __init__(self, web: Web, turn: "LiveTurn", live_messages: ShownMessages) -> None:
        self._web, self._turn, self._live_messages = web, turn, live_messages
        self._content = Shown(is_stream=True)
        self._step = ""
        self._ts: str | None = None

    async def run(self) -> bool:
        """Show the turn until it ends; return False at once if Slack refuses the stream."""
        try:
            while True:
                if not await self._update():
                    return self._ts is not None
                if await self._turn.ends_within(SECONDS_PER_EDIT):
                    return True
        finally:
            self._content.ended = {call: to_card(self._turn, call) for call in self._turn.calls}

    async def _update(self) -> bool:
        """Send what is new; return False if no more can be streamed."""
        # What is sent is fixed before the call: tools may end while Slack answers.
        cards = {call: to_card(self._turn, call) for call in self._turn.calls}
        cards = {call_id: card for call_id, card in cards.items() if self._content.cards.get(call_id) != card}
        step = OPEN_END.sub("", neutralise_mentions(self._turn.text.strip()))
        # After a reset the streamed text stays until the final answer replaces it.
        after_reset = ("\n\n" if self._content.text else "") + step
        new = step[len(self._step) :] if step.startswith(self._step) else after_reset
        pieces = [*cards.values(), *([{"type": "markdown_text", "text": new}] if new else [])]
        if not pieces:
            return True
        if len(self._content.text) + len(new) > MESSAGE_LIMIT:
            # The end of a long answer is posted with the whole.
            return False
        if self._ts is None:
            if not await self._start(pieces):
                return False
        else:
            channel = self._turn.place.channel
            if not self._web.method_limits.has_spare(channel, "chat.appendStream"):
                # This has to wait, because Slack limits the calls.
                return True
            self._content.is_certain = False
            await self._web.call("chat.appendStream", max_wait=0, channel=channel, ts=self._ts, chunks=pieces)
            self._content.is_certain = True
        self._content.cards |= cards
        self._content.text, self._step = self._content.text + new, step
        return True

    async def _start(self, pieces: list[Json]) -> bool:
        """Begin the stream; return False if Slack refuses it or limits the calls."""
        place = self._turn.place
        if not self._web.method_limits.has_spare(place.channel, "chat.startStream", "chat.stopStream"):
            return False
        team, _, user = self._turn.asker.rpartition(":")
        posting = self._web.call(
            "chat.startStream",
            max_wait=0,
            channel=place.channel,
            thread_ts=place.thread,
            recipient_user_id=user,
            recipient_team_id=team or self._web.token.team_id,
            task_display_mode="timeline",
            chunks=pieces,
        )
        try:
            self._ts = await self._live_messages.post(self._web, self._turn, posting)
        except Refused as error:
            log.info("slack_stream_refused", turn=self._turn.turn_id, cause=str(error))
            if error.platform_code in NO_STREAMS:
                self._web.can_stream = False
            return False
        except RateLimited:
            return False
        self._live_messages.shown[self._ts] = self._content
        return True


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
