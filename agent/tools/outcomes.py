"""What a call comes to: a closed set of outcomes, each with the JSON text that the model is shown."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, assert_never

from agent.journal.steps import OutcomeKind
from agent.prompts import prompts
from shared.messages import Usage

Reason = Literal["tool", "taint"]


@dataclass(frozen=True, slots=True)
class ModelWork:
    """What models did for a call: how many model calls on whose tokens, and the whole text that they came to."""

    model_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    text: str = ""


NO_WORK = ModelWork()


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a person has to say yes to: this call with these arguments; `text` is the question.

    `agent`: whose call it is, when it is not that of the persona who answers. `approver`: the permission a yes needs.
    """

    call_id: str
    tool: str
    arguments: str
    text: str
    reason: Reason
    agent: str | None = None
    approver: str | None = None

    @property
    def shown(self) -> str:
        """Return the question with the line that says how to answer."""
        if self.approver is not None:
            return f"{self.text}\n\n{prompts().confirmation.hint_approver.format(level=self.approver)}"
        return f"{self.text}\n\n{prompts().confirmation.hint}"

    def to_journal(self) -> dict[str, Any]:
        """Return the request as the journal keeps it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Result:
    """The call succeeded."""

    content: str
    work: ModelWork = NO_WORK


@dataclass(frozen=True, slots=True)
class Failed:
    """The call failed, or may not be made."""

    content: str
    work: ModelWork = NO_WORK


@dataclass(frozen=True, slots=True)
class NotRun:
    """The call was left out through no fault of its tool or its arguments."""

    content: str
    work: ModelWork = NO_WORK


@dataclass(frozen=True, slots=True)
class NeedsApproval:
    """The call was not run: it waits for a person's yes, and the turn ends with the question."""

    content: str
    request: ApprovalRequest
    work: ModelWork = NO_WORK


Outcome = Result | Failed | NotRun | NeedsApproval


def kind_of(outcome: Outcome) -> OutcomeKind:
    """Return the outcome's name in the journal."""
    match outcome:
        case Result():
            return "result"
        case Failed():
            return "failed"
        case NotRun():
            return "not_run"
        case NeedsApproval():
            return "needs_approval"
        case _:
            assert_never(outcome)


def is_error(outcome: Outcome) -> bool:
    """Return whether readers are told that the call has failed."""
    return isinstance(outcome, Failed | NotRun)


def unknown_outcome() -> Failed:
    """Return the outcome of a call with effects that was interrupted: the model is told, and it is not repeated."""
    return Failed(json.dumps({"error": True, "message": prompts().turn.unknown_outcome}))


def not_run(reason: str) -> NotRun:
    """Return the outcome of a call that was left out for this reason."""
    return NotRun(json.dumps({"error": True, "not_run": True, "message": reason}, ensure_ascii=False))


def failed(message: str) -> Failed:
    """Return the outcome of a call that failed for this reason."""
    return Failed(json.dumps({"error": True, "message": message}, ensure_ascii=False))
