"""What a running turn announces: stored events in the journal's transactions, text in small batches by NOTIFY."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from agent.events.notifications import NOTIFY, TURNS, to_delta_note, to_note
from agent.journal.steps import Event, TurnKey
from shared.db.database import REFUSED, Database, DatabaseLost
from shared.text import clean

BATCH_SECONDS = 0.05
# A notification holds 8,000 bytes; one character takes up to six of them, and the ids of the messages up to a thousand.
DELTA_CHARS = 1000
SEQS_PER_ATTEMPT = 1_000_000


Observer = Callable[[str, dict[str, Any]], None]


class Announcer:
    """Announces what one running turn does: numbers its events, and sends text deltas when somebody watches."""

    def __init__(
        self, database: Database, key: TurnKey, inbox_ids: Sequence[int], *, last_seq: int, watched: bool
    ) -> None:
        """Number events after `last_seq`, the last stored one of an interrupted attempt; -1 when there is none."""
        self._database = database
        self._key = key
        self._inbox_ids = list(inbox_ids)
        # Deltas are not stored: readers of the previous attempt have seen numbers beyond the last stored one.
        self._seq = max(last_seq + 1, (key.attempt - 1) * SEQS_PER_ATTEMPT)
        self._waiting: list[str] = []
        self._is_reset = key.attempt > 1
        self._sender: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._observer: Observer | None = None
        self.is_watched = watched

    @property
    def wants_text(self) -> bool:
        """Return whether anybody watches the answer grow: then the model has to stream it."""
        return self.is_watched or self._observer is not None

    def observe(self, observer: Observer) -> None:
        """Call this with the name and payload of every event of the turn, in this process."""
        self._observer = observer

    def event(self, name: str, **payload: Any) -> Event:
        """Return the next event of the turn, to be stored with a journal transaction."""
        self._seq += 1
        if self._observer is not None and name != "text_delta":
            self._observer(name, payload)
        return Event(self._key.id, self._seq - 1, name=name, payload=payload)

    def thinking(self, text: str) -> list[Event]:
        """Return the event with the model's thinking; none when there is no thinking."""
        return [self.event("thinking", text=text)] if text else []

    def note(self, *, is_end: bool = False) -> str:
        """Return the notification for the current transaction; empty when nobody waits for it."""
        return to_note(self._key.id, self._inbox_ids, is_end=is_end) if self.is_watched or is_end else ""

    def add_text(self, delta: str) -> None:
        """Add a piece of text from the model; it is sent within 50 ms."""
        if self._observer is not None:
            self._observer("text_delta", {"text": delta})
        if not self.is_watched:
            return
        self._waiting.append(delta)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_batches(), name="text deltas")

    def reset_text(self) -> None:
        """Tell readers to drop the text of this step: the model's stream was interrupted and starts again."""
        if self._observer is not None:
            self._observer("text_delta", {"text": "", "reset": True})
        if not self.is_watched:
            return
        self._waiting.clear()
        self._is_reset = True
        self.add_text("")

    async def flush(self) -> None:
        """Send the collected text at once, before a stored event that follows it."""
        if self._sender is not None and not self._sender.done():
            self._hurry.set()
            # Not awaited directly: a cancellation here would cancel the sender too, and break the next flush.
            await asyncio.wait({self._sender})

    async def _send_batches(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), BATCH_SECONDS)
        self._hurry.clear()
        while self._waiting or self._is_reset:
            whole = clean("".join(self._waiting))
            self._waiting.clear()
            # Deltas are only a preview: the stored message has the whole text.
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
        return to_delta_note(self._key.id, self._inbox_ids, seq=seq, delta=payload)
