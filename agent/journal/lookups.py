"""Looks up the recorded steps of a turn, and counts the model calls of a conversation."""

import re
from dataclasses import replace
from typing import Any

from sqlalchemy import bindparam, select, text

from agent.journal.steps import STEP_COLUMNS, TOOL_COLUMNS, OutcomeKind, Step, to_step
from shared.db.driver import Session
from shared.models import Message

# The ids that the previous release gave to calls that the user approved or denied.
ANSWERED_CALL = re.compile(r"(agreed|denied)_(\d{1,19})")
STEPS_OF_TURN = (
    select(*STEP_COLUMNS, Message.plan, *TOOL_COLUMNS, Message.outcome, Message.confirmation)
    .where(Message.turn_id == bindparam("turn_id"))
    .order_by(Message.seq)
)
# `iterations` counts the model calls of a turn. For earlier turns with these errors, whose last call got no answer,
# the recorded answers are counted instead. Later turns in this conversation with a parent are child turns of this one.
COUNT_CALLS = text("""
SELECT coalesce(sum(CASE WHEN id < :turn_id AND error IN ('models_unavailable', 'too_long')
    THEN (SELECT count(*) FROM messages WHERE messages.turn_id = turns.id AND role = 'assistant')
    ELSE iterations END), 0) AS position
FROM turns WHERE conversation_id = :conversation_id AND (id <= :turn_id OR parent_turn_id >= :turn_id)
""")


async def list_steps(session: Session, turn_id: int) -> list[Step]:
    """Return the recorded steps of a turn, sorted by position."""
    rows = (await session.execute(STEPS_OF_TURN, {"turn_id": turn_id})).all()
    split = len(STEP_COLUMNS) + 1
    return [with_outcome(to_step(row[:split], row[split:])) for row in rows]


def with_outcome(step: Step) -> Step:
    """Fill in `outcome` and `confirmation` of a step that the previous release recorded without them.

    That release encoded the outcome in the JSON of the result, and the answered question in the id of the call.
    """
    if step.role == "tool_result" and step.tool.outcome is None:
        return replace(step, tool=replace(step.tool, outcome=_read_outcome(step.value)))
    if step.role == "tool_call" and (found := ANSWERED_CALL.fullmatch(step.tool.call_id)) is not None:
        confirmation = {"id": int(found[2]), "approved": found[1] == "agreed"}
        return replace(step, tool=replace(step.tool, confirmation=confirmation))
    return step


def _read_outcome(value: Any) -> OutcomeKind:
    if not isinstance(value, dict):
        return "result"
    if "confirmation_asked" in value:
        return "needs_approval"
    if value.get("error") is True:
        return "not_run" if value.get("not_run") is True else "failed"
    return "result"


async def count_calls(session: Session, conversation_id: int, turn_id: int) -> int:
    """Return the number of model calls in the conversation up to this turn, including those of its child turns."""
    given = {"conversation_id": conversation_id, "turn_id": turn_id}
    return int((await session.execute(COUNT_CALLS, given)).scalar_one())
