"""What a running turn tells: events and text for readers, and a live message on platforms that can edit messages.

The announcer notifies readers of the turn's stored events and sends its text in small batches, by NOTIFY. The channels
and the JSON payloads of these notifications stand here too.

The live message is only a preview; the reply is what the turn commits at its end. The id of the live message is stored
with the turn, so that the final delivery edits that message, also after a crash.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from sqlalchemy import text

from agent.journal.steps import Event, TurnKey
from agent.outflow.reply import Outflow, OutflowRules
from shared.db.database import REFUSED, Database, DatabaseLost
from shared.log import get_logger
from shared.messages import IncomingMessage, Place
from shared.text import clean

# `TURNS`: a turn has new events, a text delta, or has ended. `CANCELLATIONS`: a turn should stop (its id).
# `READERS`: a process asks whether any reader waits for a message, and another process answers. `DUE`: a scheduled job
# has sent a message into a place (its key).
TURNS, CANCELLATIONS, READERS, DUE = "parley_turns", "parley_stops", "parley_readers", "parley_due"
# Sent by triggers, with the name of the table that an admin has changed.
CHANGES = "parley_changes"

BATCH_SECONDS = 0.05
# A notification can hold 8,000 bytes; one character takes up to six bytes, and the inbox ids take up to a thousand.
DELTA_CHARS = 1000
SEQS_PER_ATTEMPT = 1_000_000
# At the end, a message that is just being posted is awaited up to this long, so that its id is known.
SETTLE_SECONDS = 5.0

NOTIFY = text("SELECT pg_notify(:channel, note) FROM unnest(CAST(:notes AS text[])) AS note")
KEEP_LIVE = text("""
UPDATE turns SET live_message_id = :message_id WHERE id = :turn_id AND attempt = :attempt AND status = 'running'
RETURNING id
""")
FIND_LIVE = text("SELECT live_message_id FROM turns WHERE id = :turn_id")

log = get_logger()

Observer = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers of one turn: those who wait for one of the messages that it answers."""

    turn_id: int
    inbox_ids: tuple[int, ...] = ()

    def note(self, *, is_end: bool = False) -> str:
        """Return the payload that announces new stored events of the turn, or its end."""
        return to_note(self.turn_id, self.inbox_ids, is_end=is_end)

    def delta_note(self, seq: int, delta: dict[str, Any]) -> str:
        """Return the payload with a text delta of the turn."""
        return to_delta_note(self.turn_id, self.inbox_ids, seq=seq, delta=delta)


def to_note(turn_id: int, inbox_ids: Sequence[int], *, is_end: bool = False) -> str:
    """Return the payload that announces new stored events of this turn, or its end."""
    # 500 ids fit into one notification; a turn answers at most 50 messages.
    return json.dumps({"turn": turn_id, "inbox": list(inbox_ids), "end": is_end})


def to_delta_note(turn_id: int, inbox_ids: Sequence[int], *, seq: int, delta: dict[str, Any]) -> str:
    """Return the payload with a text delta of a turn."""
    return json.dumps({"turn": turn_id, "inbox": list(inbox_ids), "seq": seq, "delta": delta}, ensure_ascii=False)


def to_question_note(token: str, inbox_ids: Sequence[int]) -> str:
    """Return the payload that asks other processes whether a reader waits for one of these messages."""
    return json.dumps({"asked": token, "inbox": list(inbox_ids)})


def to_answer_note(token: str) -> str:
    """Return the payload that answers the request with this token: a reader is waiting."""
    return json.dumps({"here": token})


def read_note(payload: object) -> dict[str, Any]:
    """Parse a payload of `TURNS` or `READERS`."""
    note: dict[str, Any] = json.loads(str(payload))
    return note


class Announcer:
    """Numbers the events of one running turn, and sends its text deltas if a reader is watching.

    All text of the model passes the turn's `outflow`; of a stream, only what is certain is sent.
    """

    def __init__(
        self,
        database: Database,
        rules: OutflowRules,
        key: TurnKey,
        inbox_ids: Sequence[int] = (),
        *,
        last_seq: int = -1,
        watched: bool = False,
    ) -> None:
        """Number events after `last_seq`, the last stored event of an interrupted attempt; -1 if there is none."""
        self.outflow = Outflow(rules)
        self._database = database
        self._readers = Readers(key.id, tuple(inbox_ids))
        # Deltas are numbered but not stored, so readers may have seen higher numbers of the previous attempt.
        self._seq = max(last_seq + 1, (key.attempt - 1) * SEQS_PER_ATTEMPT)
        self._waiting: list[str] = []
        self._is_reset = key.attempt > 1
        self._sender: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._observer: Observer | None = None
        self.is_watched = watched

    @property
    def wants_text(self) -> bool:
        """Return whether a reader or an observer wants text deltas, so that the model has to stream."""
        return self.is_watched or self._observer is not None

    def observe(self, observer: Observer) -> None:
        """Register the observer, which is called with the name and payload of every event, in this process."""
        self._observer = observer

    def event(self, name: str, **payload: Any) -> Event:
        """Create the next event of the turn; the caller stores it in a journal transaction."""
        self._seq += 1
        if self._observer is not None and name != "text_delta":
            self._observer(name, payload)
        return Event(self._readers.turn_id, self._seq - 1, name=name, payload=payload)

    def thinking(self, text: str) -> list[Event]:
        """Return the event with the model's thinking; an empty list if the text is empty."""
        return [self.event("thinking", text=self.outflow.filtered(text))] if text else []

    def note(self, *, is_end: bool = False) -> str:
        """Return the payload to notify in this transaction; empty without a watching reader, except at the end."""
        return self._readers.note(is_end=is_end) if self.is_watched or is_end else ""

    def add_text(self, delta: str) -> None:
        """Add a piece of text from the model; what is certain of it is sent within 50 ms."""
        if not self.wants_text:
            return
        self._tell(self.outflow.feed(delta))

    def _tell(self, text: str) -> None:
        if text and self._observer is not None:
            self._observer("text_delta", {"text": text})
        if text and self.is_watched:
            self._waiting.append(text)
            self._send_soon()

    def _send_soon(self) -> None:
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_batches(), name="text deltas")

    def reset_text(self) -> None:
        """Tell readers to drop the text of this step: the model's stream was interrupted and starts again."""
        self.outflow.drop_stream()
        if self._observer is not None:
            self._observer("text_delta", {"text": "", "reset": True})
        if not self.is_watched:
            return
        self._waiting.clear()
        self._is_reset = True
        self._send_soon()

    async def flush(self) -> None:
        """Send the rest of the text at once, so that it arrives before the stored event that follows it."""
        self._tell(self.outflow.finish())
        if self._sender is not None and not self._sender.done():
            self._hurry.set()
            # Not awaited directly, because a cancellation would then also cancel the sender and break the next flush.
            await asyncio.wait({self._sender})

    async def _send_batches(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), BATCH_SECONDS)
        self._hurry.clear()
        while self._waiting or self._is_reset:
            whole = clean("".join(self._waiting))
            self._waiting.clear()
            # Lost deltas do no harm: they are a preview, and the stored message has the whole text.
            with contextlib.suppress(DatabaseLost, *REFUSED):
                await self._send(whole)

    async def _send(self, whole: str) -> None:
        notes = [self._delta(whole[start : start + DELTA_CHARS]) for start in range(0, max(1, len(whole)), DELTA_CHARS)]
        async with self._database.statement() as session:
            await session.execute(NOTIFY, {"channel": TURNS, "notes": notes})

    def _delta(self, piece: str) -> str:
        payload: dict[str, Any] = {"text": piece}
        if self._is_reset:
            payload["reset"] = True
            self._is_reset = False
        seq = self.event("text_delta").seq
        return self._readers.delta_note(seq, payload)


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
            row = (await session.execute(FIND_LIVE, {"turn_id": self.turn_id})).one_or_none()
        return None if row is None else row.live_message_id

    async def keep_message(self, message_id: str) -> bool:
        """Store the id of the live message for the final delivery; return False if another worker has the turn."""
        given = {"message_id": message_id, "turn_id": self._key.id, "attempt": self._key.attempt}
        async with self._database.statement() as session:
            return (await session.execute(KEEP_LIVE, given)).one_or_none() is not None


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
