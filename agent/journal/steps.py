"""The entries of a turn's journal (messages, tool calls, results), and the events for clients that follow the turn."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from sqlalchemy import bindparam, select, text

from shared.db.driver import Session
from shared.models import Message

Role = Literal["user", "assistant", "tool_call", "tool_result"]
OutcomeKind = Literal["result", "failed", "not_run", "needs_approval"]
# The ids that the previous release gave to calls that the user approved or denied.
ANSWERED_CALL = re.compile(r"(agreed|denied)_(\d{1,19})")

# Arguments that are not a valid JSON object are stored as an object that holds their text under this key.
GARBLED = "not_json"


@dataclass(frozen=True, slots=True)
class TurnKey:
    """The id of a turn and the number of the attempt; every write checks both, so that only the latest can write."""

    id: int
    attempt: int


UNREAD = object()


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of a turn: a message, a model answer, a tool call or its result.

    `plan` is the plan of an answer in planner mode. `outcome` is the kind of outcome of a result. `confirmation` is,
    for a result, its request for approval, and for a call that the user was asked about
    `{"id": …, "approved": …}`. `read` caches the parsed content.
    """

    seq: int
    role: Role
    content: str
    token_count: int = 0
    model_used: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    speaker: str | None = None
    platform_message_id: str | None = None
    plan: dict[str, Any] | None = None
    outcome: OutcomeKind | None = None
    confirmation: dict[str, Any] | None = None
    read: Any = field(default=UNREAD, repr=False, compare=False, kw_only=True)

    @property
    def value(self) -> Any:
        """Return the parsed JSON content of a call or a result; cached, so callers must not modify it."""
        if self.read is UNREAD:
            object.__setattr__(self, "read", json.loads(self.content))
        return self.read


STORED = tuple(each.name for each in fields(Step) if each.name != "read")


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a turn, for clients that follow it."""

    turn_id: int
    seq: int
    name: str
    payload: dict[str, Any]


async def list_steps(session: Session, turn_id: int) -> list[Step]:
    """Return the recorded steps of a turn, sorted by position."""
    rows = (await session.execute(STEPS_OF_TURN, {"turn_id": turn_id})).all()
    return [with_outcome(to_step(row)) for row in rows]


def with_outcome(step: Step) -> Step:
    """Fill in `outcome` and `confirmation` of a step that the previous release recorded without them.

    That release encoded the outcome in the JSON of the result, and the answered question in the id of the call.
    """
    if step.role == "tool_result" and step.outcome is None:
        return replace(step, outcome=_read_outcome(step.value))
    if step.role == "tool_call" and (found := ANSWERED_CALL.fullmatch(str(step.tool_call_id))) is not None:
        return replace(step, confirmation={"id": int(found[2]), "approved": found[1] == "agreed"})
    return step


def _read_outcome(value: Any) -> OutcomeKind:
    if not isinstance(value, dict):
        return "result"
    if "confirmation_asked" in value:
        return "needs_approval"
    if value.get("error") is True:
        return "not_run" if value.get("not_run") is True else "failed"
    return "result"


def to_step(values: Sequence[Any]) -> Step:
    """Convert a row with the columns `STEP_COLUMNS` to a step; by position, which is faster for long histories."""
    return Step(*values)


# In the order of the fields of `Step`.
STEP_COLUMNS = (
    Message.seq,
    Message.role,
    Message.content,
    Message.token_count,
    Message.model_used,
    Message.tool_call_id,
    Message.tool_name,
    Message.speaker,
    Message.platform_message_id,
)


STEPS_OF_TURN = (
    select(*STEP_COLUMNS, Message.plan, Message.outcome, Message.confirmation)
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


async def count_calls(session: Session, conversation_id: int, turn_id: int) -> int:
    """Return the number of model calls in the conversation up to this turn, including those of its child turns."""
    given = {"conversation_id": conversation_id, "turn_id": turn_id}
    return int((await session.execute(COUNT_CALLS, given)).scalar_one())
