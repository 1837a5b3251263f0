"""The policy for calls of a plan: they run only if the calls they need have succeeded and enough waves are left."""

from agent.journal.steps import TurnLog
from agent.prompts import prompts
from agent.tools.calls import PendingCall
from agent.tools.outcomes import Failed, NotRun, failed, not_run
from agent.turn.planner.execution import find_results, is_missing, needed_values, plain_arguments, plan_of
from agent.turn.planner.plan import PlanBroken, fill_in


class PlanObstacle:
    """Stops calls of the last plan that cannot run."""

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
