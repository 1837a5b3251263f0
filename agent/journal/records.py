"""The journal of a running turn: every step recorded once, fenced against a worker whose turn another has taken over.

A model answer takes one row for its text and one per tool call; the result of the n-th call has its place reserved
behind them, so that the order is the model's whatever finishes first.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from agent.billing.budget import Admission, to_admission
from agent.billing.ledger import PaidCall, Payment
from agent.journal.steps import STORED, Event, Step, TurnKey
from shared.db.driver import Session
from shared.errors import Superseded
from shared.text import clean_json

RECORD = text("""
SELECT stop_requested FROM parley_record_v1(
    p_turn_id => :turn_id, p_attempt => :attempt, p_steps => :steps, p_events => :events, p_note => :note
)
""")
RECORD_AND_SETTLE = text("""
SELECT * FROM parley_record_v1(
    p_turn_id => :turn_id, p_attempt => :attempt, p_steps => :steps, p_events => :events, p_note => :note,
    p_calls => :calls, p_reserve => :reserve, p_seconds => :seconds
)
""")
SETTLE = text("""
SELECT * FROM parley_settle_v1(
    p_turn_id => :turn_id, p_attempt => :attempt, p_calls => :calls, p_reserve => :reserve, p_seconds => :seconds
)
""")


@dataclass(frozen=True, slots=True)
class Entry:
    """What is recorded at one moment: steps, events for the turn's readers, and the note that announces them."""

    steps: Sequence[Step] = ()
    events: Sequence[Event] = ()
    note: str = ""

    def to_parameters(self) -> dict[str, Any]:
        """Return the parameters that record it, for the functions of the database."""
        events = [{"seq": event.seq, "name": event.name, "payload": event.payload} for event in self.events]
        return {
            "steps": json.dumps(clean_json([{name: getattr(step, name) for name in STORED} for step in self.steps])),
            "events": json.dumps(clean_json(events)),
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the database returns for a recorded step; `admission` of the next model call when calls were paid."""

    stop_requested: bool
    admission: Admission | None = None


async def record(session: Session, key: TurnKey, entry: Entry, *, payment: Payment | None = None) -> Recorded:
    """Record steps and events; with a payment, pay for the calls behind them and reserve the next call.

    Raises `Superseded` when another attempt runs the turn.
    """
    given = {"turn_id": key.id, "attempt": key.attempt} | entry.to_parameters()
    if payment is None:
        row = (await session.execute(RECORD, given)).one_or_none()
    else:
        row = (await session.execute(RECORD_AND_SETTLE, given | payment.to_parameters())).one_or_none()
    if row is None:
        raise Superseded
    return Recorded(row.stop_requested, None if payment is None else to_admission(row))


async def pay(session: Session, key: TurnKey, payment: Payment) -> Admission:
    """Pay for calls that gave no answer, and reserve tokens for the call that is made in their place.

    Raises `Superseded` when another attempt runs the turn.
    """
    given = {"turn_id": key.id, "attempt": key.attempt} | payment.to_parameters()
    row = (await session.execute(SETTLE, given)).one_or_none()
    if row is None:
        raise Superseded
    return to_admission(row)


async def settle(session: Session, key: TurnKey, calls: Sequence[PaidCall]) -> None:
    """Pay for calls that led to no step and give back what the turn holds, unless another attempt runs it."""
    given = {"turn_id": key.id, "attempt": key.attempt} | Payment(calls).to_parameters()
    await session.execute(SETTLE, given)
