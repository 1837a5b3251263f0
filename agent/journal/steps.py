"""The entries of a turn's journal: its messages, tool calls and results, in order; and the events for its readers."""

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
# The ids that the release before gave to calls that carry out an answer.
ANSWERED_CALL = re.compile(r"(agreed|denied)_(\d{1,19})")

# Arguments of a call that are no JSON object are kept as an object with their text under this key.
GARBLED = "not_json"


@dataclass(frozen=True, slots=True)
class TurnKey:
    """Which turn, and which attempt at it: every write of a running turn is fenced with both."""

    id: int
    attempt: int


UNREAD = object()


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of a turn: a message, a model answer, a call or its result.

    `plan` is what an answer in planner mode was. `outcome` says what the call of a result came to. `confirmation` is
    the question that a result waits for, or of a call the answer that it carries out: `{"id": …, "approved": …}`.
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
        """Return the JSON value of a call or a result; it is parsed once, and shared by all readers."""
        if self.read is UNREAD:
            object.__setattr__(self, "read", json.loads(self.content))
        return self.read


STORED = tuple(each.name for each in fields(Step) if each.name != "read")


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a turn for its readers."""

    turn_id: int
    seq: int
    name: str
    payload: dict[str, Any]


async def list_steps(session: Session, turn_id: int) -> list[Step]:
    """Return what is recorded of a turn, in order."""
    rows = (await session.execute(STEPS_OF_TURN, {"turn_id": turn_id})).all()
    return [with_outcome(to_step(row)) for row in rows]


def with_outcome(step: Step) -> Step:
    """Return a step that the release before has recorded as this one would have: it kept no outcomes.

    There a result said in its JSON what it was, and a call in its id which question it was made for.
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
    """Return the step of a row of `messages`, by position: a history has hundreds of them."""
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


# Turns count their model calls; one that failed without an answer is not among them. Turns that begin after this one in
# its conversation are those of agents that it has asked, and that they have asked in turn.
COUNT_CALLS = text("""
SELECT coalesce(sum(CASE WHEN id < :turn_id AND error IN ('models_unavailable', 'too_long')
    THEN (SELECT count(*) FROM messages WHERE messages.turn_id = turns.id AND role = 'assistant')
    ELSE iterations END), 0) AS position
FROM turns WHERE conversation_id = :conversation_id AND (id <= :turn_id OR parent_turn_id >= :turn_id)
""")


async def count_calls(session: Session, conversation_id: int, turn_id: int) -> int:
    """Return how many model calls the conversation holds up to this turn, those of agents that it asked included."""
    given = {"conversation_id": conversation_id, "turn_id": turn_id}
    return int((await session.execute(COUNT_CALLS, given)).scalar_one())
