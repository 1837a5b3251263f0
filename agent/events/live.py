"""The live message: a running turn shown by its worker, on platforms whose messages can be edited.

It is only a preview: the closing commit decides what the reply is. The live message's id is stored with the turn, so
that the final send edits that message, also after a crash.
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
from shared.messages import IncomingMessage

# A message that is being posted is waited for, so that its id is known, but never longer than this.
SETTLE_SECONDS = 5.0

KEEP = text("""
UPDATE turns SET live_message_id = :message_id WHERE id = :turn_id AND attempt = :attempt AND status = 'running'
""")
FIND = text("SELECT live_message_id FROM turns WHERE id = :turn_id")

log = get_logger()


class LiveTurn:
    """What can be shown of a running turn: the text of its last step, its running tools and its finished ones.

    By the id of the call, `calls` has the name of its tool, and `ended_tools` whether it failed.
    """

    def __init__(self, database: Database, key: TurnKey, message: IncomingMessage) -> None:
        self.turn_id, self.place = key.id, message.place
        self.reply_to = message.platform_message_id or message.event_id
        self.asker = message.sender.platform_user_id
        self.text = ""
        self.tools: dict[str, str] = {}
        self.calls: dict[str, str] = {}
        self.ended_tools: dict[str, bool] = {}
        self._database, self._key = database, key
        self._is_new_step = False
        self._ended = asyncio.Event()

    def observe(self, name: str, payload: dict[str, Any]) -> None:
        """Take in an event of the turn."""
        if name == "tool_call":
            self.tools[str(payload["id"])] = self.calls[str(payload["id"])] = str(payload["tool"])
        elif name == "tool_result":
            self.tools.pop(str(payload.get("id")), None)
            self.ended_tools[str(payload.get("id"))] = bool(payload.get("error"))
            self._is_new_step = True
        elif name == "text_delta":
            if payload.get("reset") or self._is_new_step:
                self.text, self._is_new_step = "", False
            self.text += payload["text"]

    async def ends_within(self, seconds: float) -> bool:
        """Wait; return whether the turn has ended."""
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
        """Return the message in which an earlier attempt has shown this turn."""
        async with self._database.statement() as session:
            row = (await session.execute(FIND, {"turn_id": self.turn_id})).one_or_none()
        return None if row is None else row.live_message_id

    async def keep_message(self, message_id: str) -> None:
        """Store the message that the final send has to edit, unless another worker has taken the turn over."""
        given = {"message_id": message_id, "turn_id": self._key.id, "attempt": self._key.attempt}
        async with self._database.statement() as session:
            await session.execute(KEEP, given)


@runtime_checkable
class LiveSender(Protocol):
    """A sender that can show an answer while it grows."""

    async def show(self, turn: LiveTurn) -> None:
        """Show the turn until it ends."""
        ...


@asynccontextmanager
async def shown_live(sender: object, turn: LiveTurn, announcer: Announcer) -> AsyncIterator[None]:
    """Show the turn within the block if its sender can; at the end of the block no live message is on its way."""
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
