"""What a turn has come to so far: the steps of its journal, and what follows from them."""

from collections.abc import Iterable, Sequence

from agent.journal.positions import call_seq, result_seq
from agent.journal.steps import Step


class TurnLog:
    """The steps of a turn in the order in which they were recorded; it only grows.

    It survives an exception, so that the work done is kept when the turn is closed.
    """

    def __init__(self, turn_id: int, steps: Iterable[Step]) -> None:
        self.turn_id = turn_id
        self._steps: list[Step] = []
        # The steps by what is asked of them, so that a turn of many calls is not searched again for each.
        self._answers: list[Step] = []
        self._calls: dict[int, Step] = {}
        self._by_id: dict[str, Step] = {}
        self._results: dict[str, Step] = {}
        self._partial = ""
        self.append(steps)

    def append(self, steps: Iterable[Step]) -> None:
        """Add steps that were recorded."""
        for step in steps:
            self._steps.append(step)
            if step.role == "tool_call":
                self._calls[step.seq] = self._by_id[str(step.tool_call_id)] = step
            elif step.role == "tool_result":
                self._results[str(step.tool_call_id)] = step
            elif step.role == "assistant":
                self._answers.append(step)

    @property
    def steps(self) -> Sequence[Step]:
        """Return the steps in the order in which they were recorded."""
        return self._steps

    @property
    def in_order(self) -> list[Step]:
        """Return the steps in the order of their positions."""
        return sorted(self._steps, key=lambda step: step.seq)

    @property
    def message(self) -> Step:
        """Return the message that began the turn."""
        return self._steps[0]

    @property
    def answers(self) -> Sequence[Step]:
        """Return the model answers."""
        return self._answers

    @property
    def last_answer(self) -> Step | None:
        """Return the newest model answer, if there is one."""
        return max(self._answers, key=lambda step: step.seq, default=None)

    @property
    def model_calls(self) -> int:
        """Return how many of the answers a model gave; a call that the person has agreed to stands under none."""
        return sum(1 for answer in self._answers if answer.model_used is not None)

    @property
    def waves(self) -> int:
        """Return how many waves of tools there were: one per answer that called some, in a plan one after the other."""
        planned = sum(int(answer.plan.get("waves", 0)) for answer in self._answers if answer.plan is not None)
        native = [answer for answer in self._answers if answer.plan is None]
        return planned + sum(1 for answer in native if call_seq(answer.seq, 0) in self._calls)

    @property
    def open_calls(self) -> list[Step]:
        """Return the recorded calls that have no result yet."""
        return [call for call in self._calls.values() if str(call.tool_call_id) not in self._results]

    @property
    def next_seq(self) -> int:
        """Return the position behind the last step and behind the places kept for results."""
        return len(self._steps) - len(self._results) + len(self._calls)

    @property
    def last_results(self) -> list[Step]:
        """Return the results that stand behind the last answer, in the order of their positions."""
        last = self.last_answer
        behind = -1 if last is None else last.seq
        return sorted((each for each in self._results.values() if each.seq > behind), key=lambda step: step.seq)

    @property
    def partial(self) -> str:
        """Return what is to be said to the person, though it stands in no step, should the turn end here."""
        return self._partial

    def keep_partial(self, text: str) -> None:
        """Keep what a model has said so far, in the place of what was kept before."""
        self._partial = text

    def call_at(self, seq: int) -> Step | None:
        """Return the call that is recorded at this position, if one is."""
        return self._calls.get(seq)

    def find_call(self, call_id: str) -> Step:
        """Return the recorded call with this id."""
        return self._by_id[call_id]

    def result_seq(self, call: Step) -> int:
        """Return the position of the result of one of the last answer's calls."""
        return result_seq(call.seq, self._width())

    def _width(self) -> int:
        # How many calls the last answer makes, those that wait for others included.
        answer = self.last_answer
        if answer is None:
            return 0
        if answer.plan is not None:
            return len(answer.plan.get("tools", ()))
        width = 0
        while call_seq(answer.seq, width) in self._calls:
            width += 1
        return width
