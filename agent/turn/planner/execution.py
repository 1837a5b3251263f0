"""Computes the state of a plan from the journal: which calls may run next, and what their results are.

Positions after the plan are reserved for all of its calls. A call is recorded at its position once the calls that it
needs have finished, so that the journal holds the actual arguments, and no call that could not start yet.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from agent.journal.steps import Step, TurnLog, call_seq, to_call_id
from agent.prompts import prompts
from agent.tools.calls import PendingCall
from agent.tools.outcomes import Failed, NotRun, failed, not_run
from agent.turn.modes import to_step
from agent.turn.planner.plan import Plan, PlanBroken, PlannedCall, fill_in
from agent.turn.running import RunningTurn

Results = Mapping[str, Step]


def find_results(turn_id: int, steps: Sequence[Step], until: int) -> dict[str, Step]:
    """Return the results of the calls of all plans up to position `until`, keyed by the ids used in the plans."""
    results = {step.tool.call_id: step for step in steps if step.role == "tool_result"}
    results_by_id: dict[str, Step] = {}
    for answer in sorted((step for step in steps if step.plan is not None), key=lambda step: step.seq):
        plan = plan_of(answer) if answer.seq <= until else None
        for index, call in enumerate(plan.calls if plan else ()):
            # An id that is used again refers to the later call.
            results_by_id.pop(call.id, None)
            result = results.get(to_call_id(turn_id, call_seq(answer.seq, index)))
            if result is not None:
                results_by_id[call.id] = result
    return results_by_id


def ready_calls(turn: RunningTurn, plan: Plan, seq: int, seqs: Collection[int], results: Results) -> list[Step]:
    """Return the unrecorded calls of the plan at position `seq` whose needs within the plan all have results."""
    own = {call.id for call in plan.calls}
    steps = []
    for index, call in enumerate(plan.calls):
        place = call_seq(seq, index)
        if place in seqs or not all(need in results for need in call.needs if need in own):
            continue
        arguments = plain_arguments(call)
        # If the references cannot be resolved the call will not run; the journal then stores the arguments as written.
        with suppress(PlanBroken):
            arguments = fill_in(arguments, needed_values(call, results))
        content = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        steps.append(to_step(turn, place, name=call.tool, arguments=content))
    return steps


def following_calls(turn: RunningTurn, new: Sequence[Step]) -> list[Step]:
    """Return the calls of the last plan that may run after these new results; none when the last answer is no plan."""
    log = turn.log
    plan = plan_of(log.last_answer)
    if log.last_answer is None or plan is None:
        return []
    seqs = {step.seq for step in log.steps if step.role == "tool_call"}
    results = find_results(log.turn_id, [*log.steps, *new], log.last_answer.seq)
    return ready_calls(turn, plan, seq=log.last_answer.seq, seqs=seqs, results=results)


def find_response(log: TurnLog) -> str:
    """Return the response of the last plan if it is "done" and all its calls succeeded, otherwise an empty text."""
    plan = plan_of(log.last_answer)
    if plan is None or plan.status != "done":
        return ""
    results = log.last_results
    is_whole = len(results) == len(plan.calls) and not any(map(is_missing, results))
    return plan.response if is_whole else ""


def is_missing(result: Step) -> bool:
    """Return whether a result has no value for dependent calls: the call failed, was not run, or needs approval."""
    return result.tool.outcome != "result"


def plan_of(answer: Step | None) -> Plan | None:
    """Return the plan of an answer; None when it has none, or an invalid one."""
    if answer is None or answer.plan is None or "broken" in answer.plan:
        return None
    return Plan.from_journal(answer.plan)


def plain_arguments(call: PlannedCall) -> Any:
    """Return the planned arguments with references unresolved; parses those that the model wrote as a JSON text."""
    if isinstance(call.args, str):
        try:
            return json.loads(call.args)
        except (ValueError, RecursionError):
            return call.args
    return call.args


def needed_values(call: PlannedCall, results: Results) -> dict[str, Any]:
    """Return the results that a call needs, keyed by the ids of their calls."""
    return {need: results[need].value for need in call.needs if need in results}


class PlanObstacle:
    """The policy for calls of a plan: stops those of the last plan that cannot run."""

    def __init__(self, log: TurnLog) -> None:
        self._log = log

    async def check(self, call: PendingCall) -> PendingCall | NotRun | Failed:
        """Stop a call if its needs failed, its level is beyond the waves left, or its references cannot be resolved."""
        answer = self._log.last_answer
        plan = plan_of(answer)
        if answer is None or plan is None:
            return call
        planned = plan.calls[call.seq - answer.seq - 1]
        results = find_results(self._log.turn_id, self._log.steps, answer.seq)
        if unmet := [need for need in planned.needs if need not in results or is_missing(results[need])]:
            return not_run(prompts().planner.needs_failed.format(ids=", ".join(unmet)))
        if planned.level >= plan.waves:
            return not_run(prompts().planner.no_steps_left)
        try:
            fill_in(plain_arguments(planned), needed_values(planned, results))
        except PlanBroken as error:
            return failed(str(error))
        return call
