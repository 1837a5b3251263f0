"""The in-memory log of a turn: its recorded steps, with lookups for answers, calls and results."""

from collections.abc import Iterable, Sequence

from agent.journal.positions import call_seq, result_seq
from agent.journal.steps import Step


class TurnLog:
    """The steps of a turn in the order in which they were recorded; append-only.

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

    @property
    def answers(self) -> Sequence[Step]:
        """Return the assistant steps, in the order in which they were recorded."""
        return self._answers

    @property
    def last_answer(self) -> Step | None:
        """Return the newest assistant step, if there is one."""
        return max(self._answers, key=lambda step: step.seq, default=None)

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
        return sorted((each for each in self._results.values() if each.seq > behind), key=lambda step: step.seq)

    @property
    def partial(self) -> str:
        """Return the text that is shown to the user if the turn is interrupted now; it is not part of any step."""
        return self._partial

    def keep_partial(self, text: str) -> None:
        """Replace the partial text."""
        self._partial = text

    def call_at(self, seq: int) -> Step | None:
        """Return the call recorded at this position, if there is one."""
        return self._calls.get(seq)

    def find_call(self, call_id: str) -> Step:
        """Return the recorded call with this id; raises `KeyError` when there is none."""
        return self._by_id[call_id]

    def result_seq(self, call: Step) -> int:
        """Return the position reserved for the result of a call of the last answer."""
        return result_seq(call.seq, self._width())

    def _width(self) -> int:
        # The number of calls of the last answer, including those that wait for others.
        answer = self.last_answer
        if answer is None:
            return 0
        if answer.plan is not None:
            return len(answer.plan.get("tools", ()))
        width = 0
        while call_seq(answer.seq, width) in self._calls:
            width += 1
        return width
