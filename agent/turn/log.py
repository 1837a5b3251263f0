"""What a turn has come to so far."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from agent.billing.budget import Admission
from agent.billing.ledger import PaidCall
from agent.delegation.agents import DelegationResult
from agent.journal.steps import Step
from agent.turn.open import RunningTurn
from shared.messages import Usage


@dataclass
class _Index:
    # The steps by what is asked of them, so that a turn of many calls is not searched again for each.
    taken: int = 0
    answers: list[Step] = field(default_factory=list)
    calls: dict[int, Step] = field(default_factory=dict)
    by_id: dict[str, Step] = field(default_factory=dict)
    done: set[str | None] = field(default_factory=set)
    others: int = 0

    def take(self, steps: list[Step]) -> "_Index":
        for step in steps[self.taken :]:
            if step.role == "tool_call":
                self.calls[step.seq] = self.by_id[str(step.tool_call_id)] = step
            elif step.role == "tool_result":
                self.done.add(step.tool_call_id)
            else:
                self.others += 1
            if step.role == "assistant":
                self.answers.append(step)
        self.taken = len(steps)
        return self


@dataclass
class Progress:
    """What a turn has come to so far; survives an exception, so that the work done is kept in its closing.

    `steps` only grows. `estimate` is the upper estimate of the next model call, in tokens. `told` is what agents came
    to, by the call that asked them. `positions` numbers the model calls of a scripted conversation, those of agents
    among them. `shows_untrusted` and `shows_private` say what the prompt holds beside the results of tools.
    """

    steps: list[Step]
    admission: Admission
    estimate: int
    positions: Iterator[int] | None = None
    unpaid: list[PaidCall] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    text: str = ""
    told: dict[str, DelegationResult] = field(default_factory=dict)
    shows_untrusted: bool = False
    shows_private: bool = False
    _index: _Index = field(default_factory=_Index, repr=False)

    @property
    def model_calls(self) -> int:
        """Return how many of the answers a model gave; a call that the person has agreed to stands under none."""
        return sum(1 for answer in self.answers if answer.model_used is not None)

    @property
    def answers(self) -> list[Step]:
        """Return the model answers that are recorded."""
        return self._index.take(self.steps).answers

    @property
    def last_answer(self) -> Step | None:
        """Return the newest model answer that is recorded, if one is."""
        return max(self.answers, key=lambda step: step.seq, default=None)

    @property
    def waves(self) -> int:
        """Return how many waves of tools there were: one per answer that called some, in a plan one after the other."""
        planned = sum(int(answer.plan.get("waves", 0)) for answer in self.answers if answer.plan is not None)
        return planned + sum(1 for each in self.answers if each.plan is None and self.call_at(each.seq + 1) is not None)

    def width(self, answer: Step | None) -> int:
        """Return how many calls an answer makes, those that wait for others included."""
        if answer is None:
            return 0
        if answer.plan is not None:
            return len(answer.plan.get("tools", ()))
        count = 0
        while self.call_at(answer.seq + 1 + count) is not None:
            count += 1
        return count

    def open_calls(self) -> list[Step]:
        """Return the recorded calls that have no result yet."""
        index = self._index.take(self.steps)
        return [call for call in index.calls.values() if call.tool_call_id not in index.done]

    def call_at(self, seq: int) -> Step | None:
        """Return the call that is recorded at this position, if one is."""
        return self._index.take(self.steps).calls.get(seq)

    def find_call(self, call_id: str) -> Step:
        """Return the recorded call with this id."""
        return self._index.take(self.steps).by_id[call_id]

    def next_seq(self) -> int:
        """Return the position behind the last step and behind the places kept for results."""
        index = self._index.take(self.steps)
        return index.others + 2 * len(index.calls)

    def next_position(self) -> int:
        """Return the number of the next model call in its conversation; 0 where none are numbered."""
        return 0 if self.positions is None else next(self.positions)

    def sorted_steps(self) -> list[Step]:
        """Return the steps in the journal's order."""
        return sorted(self.steps, key=lambda step: step.seq)


def begin_progress(turn: RunningTurn) -> Progress:
    """Return the progress that the journal tells."""
    return Progress(list(turn.steps), turn.admission, turn.estimate)
