"""The entries of a turn's journal (messages, tool calls, results), the log that holds them, and the turn's events."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

from msgspec import Struct

from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.text import write_json

statements = load_statements(__file__)

Role = Literal["user", "assistant", "tool_call", "tool_result"]
OutcomeKind = Literal["result", "failed", "not_run", "needs_approval"]


class TurnKey(Struct, frozen=True):
    """The id of a turn and the number of the attempt; every write checks both, so that only the latest can write."""

    id: int
    attempt: int


# Positions (`seq`) of steps in a turn: an answer, then its calls, then their results in the order of the calls.


def call_seq(answer_seq: int, index: int) -> int:
    """Return the position of the call with this index (from 0) of the answer at `answer_seq`."""
    return answer_seq + 1 + index


def result_seq(call_position: int, width: int) -> int:
    """Return the position of the result of a call whose answer has `width` calls."""
    return call_position + width


def to_call_id(turn_id: int, seq: int) -> str:
    """Return the id of the call at this position; it is the same in every attempt."""
    return f"call_{turn_id}_{seq}"


class ToolUse(Struct, frozen=True):
    """The use of a tool that a step records: the call, or its result.

    `outcome` is the kind of outcome of a result. `confirmation` is, for a result, its request for approval, and for a
    call that the user was asked about `{"id": …, "approved": …, "number": …}`, its index in that question.
    """

    call_id: str = ""
    name: str = ""
    outcome: OutcomeKind | None = None
    confirmation: dict[str, Any] | None = None


NO_TOOL = ToolUse()


class Step(Struct, frozen=True, dict=True):
    """One entry of a turn: a message, a model answer, a tool call or its result.

    `plan` is the plan of an answer in planner mode.
    """

    seq: int
    role: Role
    content: str
    token_count: int = 0
    model_used: str | None = None
    speaker: str | None = None
    platform_message_id: str | None = None
    plan: dict[str, Any] | None = None
    tool: ToolUse = NO_TOOL

    @cached_property
    def value(self) -> Any:
        """Return the parsed JSON content of a call or a result; cached, so callers must not modify it."""
        return json.loads(self.content)

    def to_row(self) -> dict[str, Any]:
        """Return the columns of the step's row in `messages`."""
        return {
            "seq": self.seq,
            "role": self.role,
            "content": self.content,
            "token_count": self.token_count,
            "model_used": self.model_used,
            "tool_call_id": self.tool.call_id or None,
            "tool_name": self.tool.name or None,
            "speaker": self.speaker,
            "platform_message_id": self.platform_message_id,
            "plan": self.plan,
            "outcome": self.tool.outcome,
            "confirmation": self.tool.confirmation,
        }


class Event(Struct, frozen=True):
    """One event of a turn, for clients that follow it."""

    turn_id: int
    seq: int
    name: str
    payload: dict[str, Any]


def to_step(own: Sequence[Any], tool: Sequence[Any]) -> Step:
    """Build a step from the values of its first fields and of its `ToolUse`; by position, which is faster."""
    return Step(*own, tool=NO_TOOL if tool[0] is None else ToolUse(*tool))  # type: ignore[misc]  # `own` ends before it


# How many fields of `Step` stand before those of `ToolUse`, in the history (`parley_history`) and of a turn.
PAST_FIELDS, OWN_FIELDS = 7, 8


class Entry(Struct, frozen=True):
    """The data of one write: steps, and events for clients that follow the turn."""

    steps: Sequence[Step] = ()
    events: Sequence[Event] = ()

    def to_parameters(self) -> dict[str, Any]:
        """Convert the entry to the parameters of the database functions."""
        events = [{"seq": event.seq, "name": event.name, "payload": event.payload} for event in self.events]
        return {
            "steps": write_json([step.to_row() for step in self.steps]),
            "events": write_json(events),
        }


class PastStep(Struct, frozen=True):
    """One entry of the history: a step with the id of its turn and the user of that turn."""

    turn_id: int
    user_id: int | None
    step: Step


async def read_history(
    session: Session, conversation_id: int, *, first: int, before: int, user_id: int
) -> list[PastStep]:
    """Return the steps of a user's own turns from `first` on, before `before`."""
    parameters = {"conversation_id": conversation_id, "first": first, "before": before, "user_id": user_id}
    return to_history((await session.execute(statements.read_history, parameters)).scalar_one(), user_id)


def to_history(rows: Iterable[Sequence[Any]], user_id: int) -> list[PastStep]:
    """Return what this user may see of the steps of `parley_history`: of the turns of others what was visible."""
    split = 2 + PAST_FIELDS
    past = [PastStep(row[0], row[1], to_step(row[2:split], row[split:])) for row in rows]
    turns = [list(turn) for _, turn in groupby(past, key=lambda step: step.turn_id)]
    return [step for turn in turns for step in (turn if turn[0].user_id == user_id else list_visible(turn))]


async def list_steps(session: Session, turn_id: int) -> list[Step]:
    """Return the recorded steps of a turn, sorted by position."""
    rows = (await session.execute(statements.list_steps, {"turn_id": turn_id})).all()
    return [to_step(row[:OWN_FIELDS], row[OWN_FIELDS:]) for row in rows]


async def count_calls(session: Session, conversation_id: int, turn_id: int) -> int:
    """Return the number of model calls in the conversation up to this turn, including those of its child turns."""
    parameters = {"conversation_id": conversation_id, "turn_id": turn_id}
    return int((await session.execute(statements.count_calls, parameters)).scalar_one())


def list_visible(turn: Sequence[PastStep]) -> list[PastStep]:
    """Return what everybody saw of a turn: its messages and its answer, none of the calls and results before it."""
    messages = [past for past in turn if past.step.role == "user"]
    last = turn[-1]
    return [*messages, last] if last.step.role == "assistant" else messages


class TurnLog:
    """The steps of a turn in the order in which they were recorded; append-only, but for transcripts in its message.

    It is kept when the turn fails, so that closing the turn can still use the work done.
    """

    def __init__(self, turn_id: int, steps: Iterable[Step]) -> None:
        self.turn_id = turn_id
        self._steps: list[Step] = []
        # Indexes of the steps, so that turns with many calls are not searched for each lookup.
        self._answers: list[Step] = []
        self._calls: dict[int, Step] = {}
        self._by_id: dict[str, Step] = {}
        self._results: dict[str, Step] = {}
        self._partial = ""
        self._reasons: Mapping[str, Any] | None = None
        self.append(steps)

    def append(self, steps: Iterable[Step]) -> None:
        """Append steps that have been recorded in the database."""
        for step in steps:
            self._steps.append(step)
            if step.role == "tool_call":
                self._calls[step.seq] = self._by_id[step.tool.call_id] = step
            elif step.role == "tool_result":
                self._results[step.tool.call_id] = step
            elif step.role == "assistant":
                self._answers.append(step)

    @property
    def steps(self) -> Sequence[Step]:
        """Return the steps in the order in which they were recorded."""
        return self._steps

    @property
    def in_order(self) -> list[Step]:
        """Return the steps sorted by position (`seq`)."""
        return sorted(self._steps, key=lambda step: step.seq)

    @property
    def message(self) -> Step:
        """Return the step of the message that the turn answers."""
        return self._steps[0]

    def replace_message(self, message: Step) -> None:
        """Set the step of the message, which has been rewritten in the database."""
        self._steps[0] = message

    @property
    def answers(self) -> Sequence[Step]:
        """Return the assistant steps, in the order in which they were recorded."""
        return self._answers

    @property
    def last_answer(self) -> Step | None:
        """Return the newest assistant step, if there is one."""
        return max(self._answers, key=lambda step: step.seq, default=None)

    @property
    def action(self) -> str | None:
        """Return what the model says of its last plan with tools; None if there is none, or it says nothing."""
        plans = [answer.plan for answer in self._answers if answer.plan is not None and answer.plan.get("action")]
        return plans[-1]["action"] if plans else None

    @property
    def model_calls(self) -> int:
        """Return how many assistant steps a model wrote; the empty one before a confirmed call is not counted."""
        return sum(1 for answer in self._answers if answer.model_used is not None)

    @property
    def waves(self) -> int:
        """Return the number of waves of tool calls: one per answer with calls; a plan counts its own waves."""
        planned = sum(int(answer.plan.get("waves", 0)) for answer in self._answers if answer.plan is not None)
        native = [answer for answer in self._answers if answer.plan is None]
        return planned + sum(1 for answer in native if call_seq(answer.seq, 0) in self._calls)

    @property
    def open_calls(self) -> list[Step]:
        """Return the recorded calls that have no result yet."""
        return [call for call in self._calls.values() if call.tool.call_id not in self._results]

    @property
    def next_seq(self) -> int:
        """Return the next free position, after all steps and the positions reserved for results."""
        return len(self._steps) - len(self._results) + len(self._calls)

    @property
    def last_results(self) -> list[Step]:
        """Return the results of the last answer's calls, sorted by position."""
        last = self.last_answer
        behind = -1 if last is None else last.seq
        return sorted((result for result in self._results.values() if result.seq > behind), key=lambda step: step.seq)

    @property
    def partial(self) -> str:
        """Return the text that is shown to the user if the turn is interrupted now; it is not part of any step."""
        return self._partial

    def keep_partial(self, text: str) -> None:
        """Replace the partial text."""
        self._partial = text

    @property
    def reasons(self) -> Mapping[str, Any] | None:
        """Return what the turn's prompt was made of; None before it was built."""
        return self._reasons

    def keep_reasons(self, reasons: Mapping[str, Any]) -> None:
        """Set what the turn's prompt was made of; stored when the turn ends."""
        self._reasons = reasons

    def find_call(self, call_id: str) -> Step:
        """Return the recorded call with this id; raises `KeyError` when there is none."""
        return self._by_id[call_id]

    def result_seq(self, call: Step) -> int:
        """Return the position reserved for the result of a call of the last answer."""
        answer = self.last_answer
        # The number of calls of the last answer, including those that wait for others.
        width = 0
        if answer is not None and answer.plan is not None:
            width = len(answer.plan.get("tools", ()))
        elif answer is not None:
            while call_seq(answer.seq, width) in self._calls:
                width += 1
        return result_seq(call.seq, width)
