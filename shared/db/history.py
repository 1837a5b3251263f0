"""The histories of the database: a promoted server begins a new one, which may lack the last commits of the one before.

Each connection asks in which history its server is (`parley_note_history`, which also makes a new one safe to work on).
A process remembers what it was told was committed; after a failover it looks how much of that is there.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any

import asyncpg
from msgspec import Struct, field

from shared.db.connections import LONG_STATEMENT_SECONDS, ReadOnlyDatabase

NOTE = """
SELECT id, system, timeline, created_at, lsn, seen_at, current_setting('transaction_read_only') = 'on' AS is_read_only
FROM public.parley_note_history()
"""
# A standby that is further behind than this is no standby for a failover.
REMEMBERED_SECONDS, MOST_REMEMBERED = 900.0, 20_000


class History(Struct, frozen=True):
    """A history of a database, by the row of `database_histories`; two with one timeline differ in `created_at`."""

    id: int
    system: str
    timeline: int
    created_at: datetime

    def is_before(self, other: "History") -> bool:
        """Return whether another server of the same database was promoted since."""
        return self.system == other.system and self.timeline < other.timeline

    def yields_to(self, other: "History") -> bool:
        """Return whether the other one is used where both servers take writes.

        Of two that were promoted to one timeline, that is the one that was met first, in every process.
        """
        is_later = (
            self.system == other.system and self.timeline == other.timeline and self.created_at > other.created_at
        )
        return is_later or self.is_before(other)


class Position(Struct, frozen=True):
    """Up to where the log of a server was on its disk at a time of its clock."""

    lsn: int
    seen_at: datetime


class Evidence(Struct, frozen=True):
    """What a process was told was committed before the database went on in the history `after`.

    `turns` are those whose answers were given, with the cost of their calls; `messages` those that were accepted.
    """

    before: History
    after: History
    last: Position | None
    turns: Sequence[tuple[int, Decimal]]
    messages: Sequence[int]


class Witness(Struct):
    """What one process has seen of the database: its history, and what it was told was committed.

    `turns` are those whose answers were given, with the cost of their calls in US dollars, None if it is unknown;
    `messages` those that were accepted. Each stands behind its time on the monotonic clock. `former_messages` were
    accepted before failovers.
    """

    history: History | None = None
    last: Position | None = None
    turns: deque[tuple[float, int, float | None]] = field(default_factory=lambda: deque(maxlen=MOST_REMEMBERED))
    messages: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=MOST_REMEMBERED))
    former_messages: frozenset[int] = frozenset()
    _evidence: list[Evidence] = field(default_factory=list)

    def note(self, history: History, position: Position) -> None:
        """Take note of what the server says that takes writes."""
        if self.history is not None and history != self.history:
            evidence = Evidence(
                before=self.history,
                after=history,
                last=self.last,
                turns=[(turn_id, Decimal(str(cost or 0))) for _, turn_id, cost in _list_recent(self.turns)],
                messages=[inbox_id for _, inbox_id in _list_recent(self.messages)],
            )
            self._evidence.append(evidence)
            # Who waits for one may not have looked for it before the next failover.
            former = sorted({*self.former_messages, *evidence.messages})
            self.former_messages = frozenset(former[-MOST_REMEMBERED:])
            self.turns.clear()
            self.messages.clear()
        self.history, self.last = history, position

    @contextmanager
    def taken(self) -> Iterator[Sequence[Evidence]]:
        """Give what is known of failovers since the last time; kept for the next time if the block fails."""
        evidence = list(self._evidence)
        yield evidence
        del self._evidence[: len(evidence)]


def _list_recent(entries: "Sequence[Any]") -> list[Any]:
    # Older rows may have been removed in good order.
    return [entry for entry in entries if entry[0] >= entries[-1][0] - REMEMBERED_SECONDS]


async def read_history(connection: asyncpg.Connection, seconds: float | None = None) -> tuple[History, Position] | None:
    """Return the server's history, noted in the database, and its position; None where it has or tells none.

    It may take so many seconds, by default as many as any statement. Raises `ReadOnlyDatabase` when the server takes no
    writes any more.
    """
    try:
        row = await _note(connection, seconds)
    except (asyncpg.UndefinedFunctionError, asyncpg.InsufficientPrivilegeError):
        # The tables are not made yet, or the login is a stranger's.
        return None
    if row is None:
        return None
    if row["is_read_only"]:
        raise ReadOnlyDatabase
    history = History(row["id"], row["system"], timeline=row["timeline"], created_at=row["created_at"])
    return history, Position(row["lsn"], row["seen_at"])


async def _note(connection: asyncpg.Connection, seconds: float | None) -> asyncpg.Record | None:
    try:
        return await connection.fetchrow(NOTE, timeout=seconds)
    except asyncpg.QueryCanceledError:
        # Of a queue of some hundred thousand places, a new history gives all jobs new ids; nobody can work before.
        async with connection.transaction():
            await connection.execute("SET LOCAL statement_timeout = 0")
            return await connection.fetchrow(NOTE, timeout=LONG_STATEMENT_SECONDS)


class Loss(Struct, frozen=True):
    """What is known to be lost, or may be, since a history began: the columns of `database_histories`.

    `lost_bytes` are those of the log that a process had seen on the disk of the server before, and this one lacks.
    """

    timeline: int
    created_at: datetime
    replayed_at: datetime | None
    answers: int
    messages: int
    cost: Decimal
    lost_bytes: Decimal

    @property
    def is_certain(self) -> bool:
        """Return whether something is lost that a process had been told was committed."""
        return bool(self.answers or self.messages)

    @property
    def may_be(self) -> bool:
        """Return whether commits may be lost."""
        return self.is_certain or self.lost_bytes > 0

    def __str__(self) -> str:
        """Return the sentence for the operator."""
        at = f"{self.created_at:%Y-%m-%d %H:%M:%S} UTC (timeline {self.timeline})"
        begin = f"the database was failed over or restored at {at}"
        if not self.may_be:
            return f"{begin}; nothing is known to be lost"
        since = "" if self.replayed_at is None else f" after {self.replayed_at:%H:%M:%S} UTC"
        sentence = f"{begin}; what was committed{since} before that may be lost"
        if not self.is_certain:
            return f"{sentence}, no answer or message is known to be"
        spent = f", and about ${self.cost:.2f} of model calls are in no ledger" if self.cost else ""
        return (
            f"{sentence}: answers that were given and whose turns are gone or open again: {self.answers:,}; accepted "
            f"messages that are gone: {self.messages:,}{spent}"
        )
