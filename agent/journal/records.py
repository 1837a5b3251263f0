"""The journal of a turn: every step recorded once, fenced against a worker that woke up late.

A model answer takes one row for its text and one per tool call; the result of the n-th call has its place reserved
behind them, so that the order is the model's whatever finishes first.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from agent.billing.budget import SETTLE, Admission, to_admission
from agent.billing.ledger import PaidCall
from agent.journal.steps import STORED, Event, Step, TurnKey
from shared.db.driver import Session
from shared.errors import Superseded
from shared.text import clean_json

# What an agent says that was asked is part of no conversation.
SHOWN_IN = "CASE WHEN parent_turn_id IS NULL THEN conversation_id END AS shown_in"
FENCED = f"""
fenced AS (
    UPDATE turns SET iterations = iterations + :iterations, model = coalesce(:model, model)
    WHERE id = :turn_id AND attempt = :attempt AND status = 'running'
    RETURNING id, conversation_id, {SHOWN_IN}, user_id, stop_requested
)"""
FENCED_END = f"""
fenced AS (
    UPDATE turns SET iterations = iterations + :iterations, model = coalesce(:model, model), status = :status,
        waves = :waves, finished = :finished, error = :error, cause = :cause, finished_at = now()
    WHERE id = :turn_id AND attempt = :attempt AND status = 'running'
    RETURNING id, conversation_id, {SHOWN_IN}, user_id, stop_requested, live_message_id
)"""
STEPS = """
steps AS (
    INSERT INTO messages (conversation_id, turn_id, seq, user_id, role, content, token_count, model_used,
                          tool_call_id, tool_name, speaker, platform_message_id, plan)
    SELECT fenced.shown_in, fenced.id, step.seq, fenced.user_id, step.role, step.content, step.token_count,
           step.model_used, step.tool_call_id, step.tool_name, step.speaker, step.platform_message_id, step.plan
    FROM fenced, jsonb_to_recordset(CAST(:steps AS jsonb)) AS step
        (seq int, role text, content text, token_count int, model_used text, tool_call_id text, tool_name text,
         speaker text, platform_message_id text, plan jsonb)
)"""
TOLD = """
told AS (
    INSERT INTO turn_events (turn_id, seq, name, payload)
    SELECT fenced.id, event.seq, event.name, event.payload
    FROM fenced, jsonb_to_recordset(CAST(:events AS jsonb)) AS event (seq int, name text, payload jsonb)
)"""
ANNOUNCED = "CASE WHEN :note <> '' THEN pg_notify('parley_turns', :note) END"

RECORD = text(f"WITH {FENCED}, {STEPS}, {TOLD} SELECT stop_requested, {ANNOUNCED} FROM fenced")
RECORD_AND_SETTLE = text(f"""
WITH {FENCED}, {STEPS}, {TOLD}, {SETTLE}
SELECT stop_requested, coalesce(admitted, true) AS admitted, coalesce(by_server, false) AS by_server,
       coalesce(used, 0) AS used, budget,
       coalesce(resets_at, now()) AS resets_at, {ANNOUNCED}
FROM fenced LEFT JOIN verdict ON true
""")


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the database said to a recorded step."""

    stop_requested: bool
    admission: Admission | None = None


async def record(
    session: Session, key: TurnKey, steps: Sequence[Step], events: Sequence[Event], note: str = ""
) -> Recorded:
    """Record steps and events; raises `Superseded` when another attempt runs the turn."""
    row = (await session.execute(RECORD, to_given(key, steps, events, note))).one_or_none()
    if row is None:
        raise Superseded
    return Recorded(stop_requested=row.stop_requested)


async def record_and_settle(
    session: Session,
    key: TurnKey,
    steps: Sequence[Step],
    events: Sequence[Event],
    calls: Sequence[PaidCall],
    *,
    reserve: int = 0,
    seconds: float = 0,
    note: str = "",
) -> Recorded:
    """Record a model answer, pay for its calls and hold `reserve` tokens for the next one, in one statement.

    Raises `Superseded` when another attempt runs the turn.
    """
    given = to_given(key, steps, events, note) | to_settlement(calls, reserve, seconds)
    row = (await session.execute(RECORD_AND_SETTLE, given)).one_or_none()
    if row is None:
        raise Superseded
    return Recorded(row.stop_requested, to_admission(row))


async def pay(session: Session, key: TurnKey, calls: Sequence[PaidCall], *, reserve: int, seconds: float) -> Admission:
    """Pay for calls that gave no answer, and hold `reserve` tokens for the one that is asked in their place.

    Raises `Superseded` when another attempt runs the turn.
    """
    given = to_given(key, [], [], "") | to_settlement(calls, reserve, seconds)
    row = (await session.execute(RECORD_AND_SETTLE, given | {"iterations": 0})).one_or_none()
    if row is None:
        raise Superseded
    return to_admission(row)


async def settle(session: Session, key: TurnKey, calls: Sequence[PaidCall]) -> None:
    """Pay for calls that led to no step, and give back what the turn holds."""
    given = to_given(key, [], [], "") | to_settlement(calls)
    await session.execute(RECORD_AND_SETTLE, given | {"iterations": 0})


def to_given(key: TurnKey, steps: Sequence[Step], events: Sequence[Event], note: str) -> dict[str, Any]:
    """Return the parameters of the fence, the steps and the events."""
    told = [{"seq": event.seq, "name": event.name, "payload": event.payload} for event in events]
    return {
        "turn_id": key.id,
        "attempt": key.attempt,
        "iterations": 0,
        "model": None,
        "steps": json.dumps(clean_json([{name: getattr(step, name) for name in STORED} for step in steps])),
        "events": json.dumps(clean_json(told)),
        "note": note,
    }


def to_settlement(calls: Sequence[PaidCall], reserve: int = 0, seconds: float = 0) -> dict[str, Any]:
    """Return the parameters of `SETTLE` for the calls of one model answer, rejected attempts included."""
    return {
        "iterations": 1 if calls else 0,
        "model": calls[-1].model if calls else None,
        "calls": json.dumps([_paid(call) for call in calls]),
        "spent": sum(max(0, call.usage.total) for call in calls),
        "reserve": reserve,
        "seconds": seconds,
    }


def _paid(call: PaidCall) -> dict[str, Any]:
    usage = call.usage
    return {
        "purpose": call.purpose,
        "model": call.model,
        "input_tokens": max(0, usage.input_tokens),
        "cached_tokens": max(0, usage.cached_tokens),
        "output_tokens": max(0, usage.output_tokens),
        "cost": usage.cost,
    }
