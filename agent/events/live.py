"""The live message: shows a running turn while it works, on platforms whose messages can be edited.

It is only a preview; the reply is what the turn commits at its end. The id of the live message is stored with the turn,
so that the final delivery edits that message, also after a crash.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol, runtime_checkable

from sqlalchemy import text

from agent.events.announcer import Announcer
from agent.journal.steps import TurnKey
from shared.db.database import Database
from shared.log import get_logger
from shared.messages import IncomingMessage, Place

# At the end, a message that is just being posted is awaited up to this long, so that its id is known.
SETTLE_SECONDS = 5.0

KEEP = text("""
UPDATE turns SET live_message_id = :message_id WHERE id = :turn_id AND attempt = :attempt AND status = 'running'
RETURNING id
""")
FIND = text("SELECT live_message_id FROM turns WHERE id = :turn_id")

log = get_logger()


class LiveTurn:
    """The state of a running turn for display: the text of its last step, its running and its finished tools.

    By call id: `calls` has the names of all tools that were called; `ended_tools` is True for failed calls.
    """

    def __init__(self, database: Database, key: TurnKey, message: IncomingMessage) -> None:
        self.message = message
        self.text = ""
        self.calls: dict[str, str] = {}
        self.ended_tools: dict[str, bool] = {}
        self._database, self._key = database, key
        self._is_new_step = False
        self._ended = asyncio.Event()

    @property
    def turn_id(self) -> int:
        """Return the turn's id."""
        return self._key.id

    @property
    def is_resumed(self) -> bool:
        """Return whether an earlier attempt of the turn was interrupted."""
        return self._key.attempt > 1

    @property
    def place(self) -> Place:
        """Return where the question was asked."""
        return self.message.place

    @property
    def reply_to(self) -> str:
        """Return the id of the message that is answered."""
        return self.message.platform_message_id or self.message.event_id

    @property
    def asker(self) -> str:
        """Return the platform's id of the person who asked."""
        return self.message.sender.platform_user_id

    @property
    def tools(self) -> list[str]:
        """Return the names of the running tools."""
        return [name for call_id, name in self.calls.items() if call_id not in self.ended_tools]

    def observe(self, name: str, payload: dict[str, Any]) -> None:
        """Update the state with an event of the turn."""
        if name == "tool_call":
            self.calls[str(payload["id"])] = str(payload["tool"])
        elif name == "tool_result":
            self.ended_tools[str(payload.get("id"))] = bool(payload.get("error"))
            self._is_new_step = True
        elif name == "text_delta":
            if payload.get("reset") or self._is_new_step:
                self.text, self._is_new_step = "", False
            self.text += payload["text"]

    async def ends_within(self, seconds: float) -> bool:
        """Wait for the end of the turn; return False if it has not ended after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    def end(self) -> None:
        """Mark the turn as ended, for the sender that shows it."""
        self._ended.set()

    async def find_message(self) -> str | None:
        """Return the id of the live message of an earlier attempt; None if there is none."""
        async with self._database.statement() as session:
            row = (await session.execute(FIND, {"turn_id": self.turn_id})).one_or_none()
        return None if row is None else row.live_message_id

    async def keep_message(self, message_id: str) -> bool:
        """Store the id of the live message for the final delivery; return False if another worker has the turn."""
        given = {"message_id": message_id, "turn_id": self._key.id, "attempt": self._key.attempt}
        async with self._database.statement() as session:
            return (await session.execute(KEEP, given)).one_or_none() is not None


@runtime_checkable
class LiveSender(Protocol):
    """A sender that can show a live message."""

    async def show(self, turn: LiveTurn) -> None:
        """Show the turn until it ends."""
        ...


@asynccontextmanager
async def shown_live(sender: object, turn: LiveTurn, announcer: Announcer) -> AsyncIterator[None]:
    """Show the turn live during the block if its sender can; after the block the sender has stopped."""
    if not isinstance(sender, LiveSender):
        yield
        return
    announcer.observe(turn.observe)
    showing = asyncio.create_task(sender.show(turn), name="live message")
    try:
        yield
    finally:
        turn.end()
        await asyncio.wait({showing}, timeout=SETTLE_SECONDS)
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)
        if not showing.cancelled() and (error := showing.exception()) is not None:
            log.warning("live_message_failed", turn=turn.turn_id, cause=repr(error))
