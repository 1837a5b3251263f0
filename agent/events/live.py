"""A turn as it is shown while it runs, by the worker that runs it, where the platform's messages can be edited.

It is a view, not the truth: what is said is decided by the closing commit. The live message's id is kept with the turn,
so that the final send edits that message, also after a crash.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol, runtime_checkable

from sqlalchemy import text

from agent.app import App
from agent.journal.steps import TurnKey
from agent.turn.open import RunningTurn
from shared.db.database import Database
from shared.log import get_logger
from shared.messages import Place

# A message that is being posted is waited for, so that its id is known; it is never waited for longer.
SETTLE_SECONDS = 5.0

KEEP = text("""
UPDATE turns SET live_message_id = :message_id WHERE id = :turn_id AND attempt = :attempt AND status = 'running'
""")
KEPT = text("SELECT live_message_id FROM turns WHERE id = :turn_id")

log = get_logger()


class LiveTurn:
    """What can be seen of a running turn: the text of its last step, the tools that run now, and those that did.

    `ended_tools` says of each call by its id whether it failed; `calls` which tool it called.
    """

    def __init__(self, database: Database, key: TurnKey, place: Place, reply_to: str, asker: str) -> None:
        self.turn_id, self.place, self.reply_to, self.asker = key.id, place, reply_to, asker
        self.text = ""
        self.tools: dict[str, str] = {}
        self.calls: dict[str, str] = {}
        self.ended_tools: dict[str, bool] = {}
        self._database, self._key = database, key
        self._is_new_step = False
        self._ended = asyncio.Event()

    def observe(self, name: str, payload: dict[str, Any]) -> None:
        """Take what the turn tells."""
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
        """Tell whoever shows it that the turn has ended."""
        self._ended.set()

    async def find_message(self) -> str | None:
        """Return the message that an attempt before has shown this turn in."""
        async with self._database.statement() as session:
            row = (await session.execute(KEPT, {"turn_id": self.turn_id})).one_or_none()
        return None if row is None else row.live_message_id

    async def keep_message(self, message_id: str) -> None:
        """Note the message that the final send is to edit; nothing happens when another worker has the turn."""
        given = {"message_id": message_id, "turn_id": self._key.id, "attempt": self._key.attempt}
        async with self._database.statement() as session:
            await session.execute(KEEP, given)


@runtime_checkable
class LiveSender(Protocol):
    """A sender that can show an answer while it grows."""

    async def show(self, turn: LiveTurn) -> None:
        """Show it until it ends."""
        ...


@asynccontextmanager
async def shown_live(app: App, turn: RunningTurn) -> AsyncIterator[None]:
    """Show the turn within the block, where its door can; at the end of the block nothing of that is on its way."""
    message = turn.message
    sender = app.senders.get(message.adapter)
    if not isinstance(sender, LiveSender):
        yield
        return
    reply_to = message.platform_message_id or message.event_id
    view = LiveTurn(app.database, turn.key, message.place, reply_to, message.sender.platform_user_id)
    turn.announcer.observe(view.observe)
    showing = asyncio.create_task(sender.show(view), name="live message")
    try:
        yield
    finally:
        view.end()
        await asyncio.wait({showing}, timeout=SETTLE_SECONDS)
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)
        if not showing.cancelled() and (error := showing.exception()) is not None:
            log.warning("live_message_failed", turn=turn.key.id, cause=repr(error))
