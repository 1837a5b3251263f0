"""What a turn spends: the budget's admission for its next model call, what is not paid yet, and the sums so far."""

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
    """The model calls of a turn; it survives an exception, so that what was spent is paid when the turn is closed.

    `estimate` is the upper estimate of the next model call, in tokens. `purpose` is what the ledger says of the calls.
    `usage` counts those of the agents that were asked, too. `numbers` gives the positions of the model calls in a
    scripted conversation, those of agents among them.
    """

    admission: Admission
    estimate: int
    purpose: str = "answer"
    numbers: Iterator[int] | None = None
    unpaid: list[PaidCall] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    model: str | None = None

    def add(self, calls: Sequence[RejectedCall]) -> None:
        """Count calls that were made and are to be paid with the next step; a rejected one was paid for as well."""
        self.unpaid = self.to_paid(calls)
        self.add_usage(self.unpaid)

    def add_usage(self, calls: Sequence[PaidCall]) -> None:
        """Count calls in the sums."""
        for call in calls:
            self.model = call.model
            self.usage = add_usage(self.usage, call.usage)

    def to_paid(self, calls: Sequence[RejectedCall]) -> list[PaidCall]:
        """Return calls as the ledger keeps them."""
        return [PaidCall(each.model, each.usage, self.purpose) for each in calls]

    def settle(self, admission: Admission | None) -> None:
        """Note that all calls are paid, and what the budget says to the next one."""
        self.unpaid = []
        self.admission = admission or self.admission

    def admit(self, admission: Admission) -> None:
        """Note what the budget says to the next call."""
        self.admission = admission

    def release(self) -> None:
        """Note that what was held for the next call has been given back."""
        self.admission = replace(self.admission, status=AdmissionStatus.NOT_REQUESTED)

    def grow(self, tokens: int) -> None:
        """Note that the next prompt is longer by so many tokens."""
        self.estimate += tokens

    def add_work(self, work: ModelWork) -> None:
        """Add what models did for a call."""
        if work.usage != Usage():
            self.usage = add_usage(self.usage, work.usage)

    def number_calls(self, first: int) -> None:
        """Number the model calls that follow from this position on."""
        self.numbers = count(first)

    def next_number(self) -> int:
        """Return the position of the next model call in its conversation; 0 where none are numbered."""
        return 0 if self.numbers is None else next(self.numbers)
