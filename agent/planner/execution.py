"""A plan while it is carried out, read from the journal: what may run next, what can't, what it came to.

The calls of a plan have their places behind it from the start, and are recorded there once what they need has ended: so
the journal has what a tool was really given, and no intent of a call that could not have begun.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from agent.confirmations.decisions import is_asked
from agent.journal.steps import Step
from agent.planner.plan import Plan, PlanBroken, PlannedCall, fill_in
from agent.prompts import prompts
from agent.tools.toolbox import Outcome, not_run
from agent.turn.log import Progress
from agent.turn.open import RunningTurn
from agent.turn.tool_calls import to_call_id, to_step

Results = Mapping[str, Any]


def find_results(turn: RunningTurn, steps: Sequence[Step], until: int) -> dict[str, Any]:
    """Return what the calls of the plans up to a position came to, by the ids that the plans gave them."""
    contents = {step.tool_call_id: step.content for step in steps if step.role == "tool_result"}
    found: dict[str, Any] = {}
    for answer in sorted((step for step in steps if step.plan is not None), key=lambda step: step.seq):
        plan = _plan_of(answer) if answer.seq <= until else None
        for seq, call in enumerate(plan.calls if plan else (), answer.seq + 1):
            # An id that stands again means the new call.
            found.pop(call.id, None)
            content = contents.get(to_call_id(turn, seq))
            if content is not None:
                found[call.id] = json.loads(content)
    return found


def ready_calls(turn: RunningTurn, plan: Plan, seq: int, recorded: Collection[int], results: Results) -> list[Step]:
    """Return the calls of a plan at this position that nothing keeps from running any more, but those recorded."""
    own = {call.id for call in plan.calls}
    return [
        to_step(turn, place, call.tool, _arguments(call, results))
        for place, call in enumerate(plan.calls, seq + 1)
        if place not in recorded and all(each in results for each in call.needs if each in own)
    ]


def following_calls(turn: RunningTurn, progress: Progress, new: Sequence[Step]) -> list[Step]:
    """Return the calls that may run now that these results are there; none when the last answer was no plan."""
    answer = progress.last_answer
    plan = _plan_of(answer)
    if answer is None or plan is None:
        return []
    recorded = {step.seq for step in progress.steps if step.role == "tool_call"}
    results = find_results(turn, [*progress.steps, *new], answer.seq)
    return ready_calls(turn, plan, answer.seq, recorded, results)


def find_obstacle(turn: RunningTurn, progress: Progress, call: Step) -> Outcome | None:
    """Return the result of a call of the last answer that can't be run, which only a planned one may be; else None."""
    answer = progress.last_answer
    plan = _plan_of(answer)
    if answer is None or plan is None:
        return None
    planned = plan.calls[call.seq - answer.seq - 1]
    results = find_results(turn, progress.steps, answer.seq)
    if failed := [each for each in planned.needs if each not in results or _is_missing(results[each])]:
        return not_run(prompts().planner.needs_failed.format(ids=", ".join(failed)))
    if planned.level >= plan.waves:
        return not_run(prompts().planner.no_steps_left)
    try:
        fill_in(_plain(planned), _needed(planned, results))
    except PlanBroken as error:
        return Outcome(json.dumps({"error": True, "message": str(error)}, ensure_ascii=False), is_error=True)
    return None


def find_response(progress: Progress) -> str:
    """Return the answer that the last plan gave for the case that its tools succeed, once they have; else nothing."""
    answer = progress.last_answer
    plan = _plan_of(answer)
    if answer is None or plan is None or plan.status != "done":
        return ""
    ended = [step for step in progress.steps if step.role == "tool_result" and step.seq > answer.seq]
    results = [step.value for step in ended]
    is_whole = len(results) == len(plan.calls) and not any(map(_is_missing, results))
    return plan.response if is_whole else ""


def _plan_of(answer: Step | None) -> Plan | None:
    if answer is None or answer.plan is None or "broken" in answer.plan:
        return None
    return Plan.from_journal(answer.plan)


def _arguments(call: PlannedCall, results: Results) -> str:
    plain = _plain(call)
    # One that can't be filled in will not run; the journal keeps what the model wrote.
    with suppress(PlanBroken):
        plain = fill_in(plain, _needed(call, results))
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _plain(call: PlannedCall) -> Any:
    # Some models write the object as a text.
    if isinstance(call.args, str):
        try:
            return json.loads(call.args)
        except (ValueError, RecursionError):
            return call.args
    return call.args


def _needed(call: PlannedCall, results: Results) -> Results:
    return {each: results[each] for each in call.needs if each in results}


def _is_missing(result: Any) -> bool:
    # A call that failed, or that waits for the person's yes, has come to nothing that another could use.
    return is_asked(result) or (isinstance(result, dict) and result.get("error") is True)
