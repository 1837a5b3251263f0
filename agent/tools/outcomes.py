"""The possible outcomes of a tool call, each with the JSON text that the model is shown."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, assert_never

from agent.journal.steps import OutcomeKind
from agent.prompts import prompts
from shared.messages import Usage

Reason = Literal["tool", "taint"]


@dataclass(frozen=True, slots=True)
class ModelWork:
    """The work of models for a tool call: the number of model calls, their usage and the complete text they wrote."""

    model_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    text: str = ""


NO_WORK = ModelWork()


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A request for approval of one call with these arguments (JSON text); `text` is the question to the user.

    A request for several calls, which are approved or denied together, has the names of their tools, separated by
    commas, and as `arguments` a JSON list of the calls; `agent/turn/confirmations/questions.py` writes and reads it.
    `agent` is the agent that made the call, None for the persona that answers. `approver` is the permission that
    the approving user needs; None when the asked user may approve.
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
        """Return the question, followed by its reason and instructions how to answer it."""
        texts = prompts().confirmation
        hint = texts.hint if self.approver is None else texts.hint_approver.format(level=self.approver)
        return "\n\n".join([self.text, *([texts.taint_reason] if self.reason == "taint" else []), hint])

    def to_journal(self) -> dict[str, Any]:
        """Convert the request to the form the journal stores."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Result:
    """The call succeeded. `full` is the result before it was cut for the model; None when it was not cut."""

    content: str
    work: ModelWork = NO_WORK
    full: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Failed:
    """The call failed, or is not permitted."""

    content: str
    work: ModelWork = NO_WORK


@dataclass(frozen=True, slots=True)
class NotRun:
    """The call was skipped for a reason other than its tool or its arguments."""

    content: str
    work: ModelWork = NO_WORK


@dataclass(frozen=True, slots=True)
class NeedsApproval:
    """The call was not run, because it needs approval; the turn ends with the question."""

    content: str
    request: ApprovalRequest
    work: ModelWork = NO_WORK


Outcome = Result | Failed | NotRun | NeedsApproval


def kind_of(outcome: Outcome) -> OutcomeKind:
    """Return the outcome's kind as the journal stores it."""
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
    """Return whether the events of the turn show the call as failed."""
    return isinstance(outcome, Failed | NotRun)


def unknown_outcome() -> Failed:
    """Return the outcome of an interrupted call whose effect may have happened; the call is not repeated."""
    return Failed(json.dumps({"error": True, "message": prompts().turn.unknown_outcome}))


def not_run(reason: str) -> NotRun:
    """Return the outcome of a call that was skipped, with the reason for the model."""
    return NotRun(json.dumps({"error": True, "not_run": True, "message": reason}, ensure_ascii=False))


def failed(message: str) -> Failed:
    """Return the outcome of a failed call, with the error message for the model."""
    return Failed(json.dumps({"error": True, "message": message}, ensure_ascii=False))
