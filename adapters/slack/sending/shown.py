"""The live messages of this process: what they show, and which of them are just being posted."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from cachetools import FIFOCache
from msgspec import Struct, field

from adapters.slack.sending.sent import remove
from adapters.slack.transport.api import Json, RateLimited, Refused, Web
from shared.errors import ParleyError

if TYPE_CHECKING:
    from agent.live.announcer import LiveTurn

REMEMBERED = 1000


class Shown(Struct):
    """The content of a live message: its text, and its cards by call id, as Slack has confirmed them.

    `edited_at` is the monotonic time of the latest edit. `ended` has the cards as they are when the turn ends.
    `is_certain` is False while it is unknown whether Slack has received the latest addition.
    """

    is_stream: bool
    text: str = ""
    cards: dict[str, Json] = field(default_factory=dict)
    edited_at: float = 0.0
    ended: dict[str, Json] = field(default_factory=dict)
    is_certain: bool = True


class Outdated(ParleyError):
    """Another worker has taken over the turn."""


class Posted(Struct, frozen=True):
    """A live message; `ts` is None if Slack has not confirmed it, so that it may exist or not."""

    ts: str | None


class ShownMessages:
    """The live messages of this process, for sending the final text.

    `shown`: their content by id; `posting`: the calls that post them, by turn; `processing`: turns with a status.
    """

    def __init__(self) -> None:
        self.processing: set[int] = set()
        self.shown: FIFOCache[str, Shown] = FIFOCache(REMEMBERED)
        self.posting: FIFOCache[int, asyncio.Task[Json]] = FIFOCache(REMEMBERED)

    async def post(self, web: Web, turn: "LiveTurn", posting: Coroutine[Any, Any, Json]) -> str:
        """Post the live message of a turn and store its id with the turn.

        A cancelled caller does not cancel the call, which Slack may have received already. Raises `Outdated`, after
        the message is removed, if another worker has taken over the turn.
        """
        task = self.posting[turn.turn_id] = asyncio.create_task(posting, name="live message")
        ts = str((await asyncio.shield(task))["ts"])
        if not await turn.keep_message(ts):
            # The other worker may have found the message and continue it.
            if await turn.find_message() != ts:
                await remove(web, turn.place.channel, ts)
            raise Outdated
        return ts

    async def find_posted(self, turn_id: int) -> Posted | None:
        """Wait for the call that posts a turn's live message; return None if Slack has not accepted it."""
        task = self.posting.pop(turn_id)
        await asyncio.wait({task})
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            return None if isinstance(error, Refused | RateLimited) else Posted(None)
        return Posted(str(task.result()["ts"]))
