"""Looks up the recorded steps of a turn, and counts the model calls of a conversation."""

from sqlalchemy import bindparam, select, text

from agent.journal.steps import STEP_COLUMNS, TOOL_COLUMNS, Step, to_step
from shared.db.driver import Session
from shared.models import Message

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
    return [to_step(row[:split], row[split:]) for row in rows]


async def count_calls(session: Session, conversation_id: int, turn_id: int) -> int:
    """Return the number of model calls in the conversation up to this turn, including those of its child turns."""
    parameters = {"conversation_id": conversation_id, "turn_id": turn_id}
    return int((await session.execute(COUNT_CALLS, parameters)).scalar_one())
