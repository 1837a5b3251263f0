"""The check of a scheduled job, as steps of the turn that the job begins."""

import json

from agent.journal.steps import Step, ToolUse, call_seq, result_seq, to_call_id
from shared.messages import DueJob
from shared.text import count_tokens


def list_check_steps(due_job: DueJob, turn_id: int) -> list[Step]:
    """Return the call that the job has made and its result, as if a model had made the call; empty without a check.

    So the result has the taint of its tool, and the model sees where it comes from.
    """
    if due_job.check is None:
        return []
    check, seq = due_job.check, call_seq(1, 0)
    arguments, call_id = json.dumps(check.arguments), to_call_id(turn_id, seq)
    return [
        Step(seq=1, role="assistant", content=""),
        Step(
            seq=seq,
            role="tool_call",
            content=arguments,
            token_count=count_tokens(arguments) + count_tokens(check.tool),
            tool=ToolUse(call_id, check.tool),
        ),
        Step(
            seq=result_seq(seq, 1),
            role="tool_result",
            content=check.result,
            token_count=count_tokens(check.result),
            tool=ToolUse(call_id, check.tool, outcome="result"),
        ),
    ]
