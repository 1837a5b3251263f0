"""The spending of a turn: the budget's admission of the next model call, the unpaid calls and the total usage."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from agent.billing.budget import Admission, AdmissionStatus
from agent.billing.ledger import PaidCall, add_usage
from agent.llm.completions import RejectedCall
from agent.tools.outcomes import ModelWork
from shared.messages import Usage


@dataclass
class Spend:
    """Counts the model calls of a turn; kept when the turn fails, so that closing it still pays for them.

    `estimate` is an upper estimate of the next model call, in tokens. `purpose` is the ledger's label for the calls.
    `usage` includes the calls of agents that the turn has delegated to. `numbers` yields the positions of model calls
    in a scripted conversation, shared with those agents; None when calls are not numbered.
    """

    admission: Admission
    estimate: int
    purpose: str = "answer"
    numbers: Iterator[int] | None = None
    unpaid: list[PaidCall] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    model: str | None = None

    def add(self, calls: Sequence[RejectedCall]) -> None:
        """Set the calls to be paid with the next step, rejected answers included, and add them to the usage."""
        self.unpaid = self.to_paid(calls)
        self.add_usage(self.unpaid)

    def add_usage(self, calls: Sequence[PaidCall]) -> None:
        """Add calls to the total usage; the last one's model becomes the model of the turn."""
        for call in calls:
            self.model = call.model
            self.usage = add_usage(self.usage, call.usage)

    def to_paid(self, calls: Sequence[RejectedCall]) -> list[PaidCall]:
        """Convert calls to the ledger's form."""
        return [PaidCall(each.model, each.usage, self.purpose) for each in calls]

    def settle(self, admission: Admission | None) -> None:
        """Mark all calls as paid, and set the admission of the next call if there is one."""
        self.unpaid = []
        self.admission = admission or self.admission

    def admit(self, admission: Admission) -> None:
        """Set the budget's admission of the next call."""
        self.admission = admission

    def release(self) -> None:
        """Mark the reservation for the next call as released."""
        self.admission = replace(self.admission, status=AdmissionStatus.NOT_REQUESTED)

    def grow(self, tokens: int) -> None:
        """Raise the estimate of the next model call by this many tokens."""
        self.estimate += tokens

    def add_work(self, work: ModelWork) -> None:
        """Add the usage of the models that a tool call has used."""
        if work.usage != Usage():
            self.usage = add_usage(self.usage, work.usage)

    def number_calls(self, first: int) -> None:
        """Number the following model calls, starting at this position."""
        self.numbers = count(first)

    def next_number(self) -> int:
        """Return the position of the next model call in its conversation; 0 when calls are not numbered."""
        return 0 if self.numbers is None else next(self.numbers)
