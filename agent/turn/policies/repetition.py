"""Does not run a call again that has already failed in this turn with the same arguments.

Failures are read from the journal, so that they are still known when another worker takes over the turn.
"""

import json
from collections.abc import Mapping, Sequence

from agent.journal.steps import Step
from agent.prompts import prompts
from agent.tools.calls import PendingCall
from agent.tools.outcomes import Failed

Key = tuple[str, str]


class Repetition:
    """Stops calls that failed in an earlier wave of this turn, and returns their earlier errors with a hint."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._failures = find_failures(steps)

    async def check(self, call: PendingCall) -> PendingCall | Failed:
        """Stop a call that failed before with the same arguments."""
        known = self._failures.get(_to_key(call.name, call.arguments)) if self._failures else None
        if known is None:
            return call
        content = {**json.loads(known), "hint": prompts().turn.repeated_call}
        return Failed(json.dumps(content, ensure_ascii=False))


def find_failures(steps: Sequence[Step]) -> dict[Key, str]:
    """Return the error results of calls that failed and have not succeeded since, keyed by tool and arguments."""
    calls = {step.tool.call_id: step for step in steps if step.role == "tool_call"}
    failures: dict[Key, str] = {}
    for step in steps:
        # A call that was not run is no evidence about its tool.
        if step.role != "tool_result" or step.tool.outcome == "not_run":
            continue
        call = calls[step.tool.call_id]
        if step.tool.outcome == "failed":
            failures[_to_key(call.tool.name, call.value)] = step.content
        elif failures:
            failures.pop(_to_key(call.tool.name, call.value), None)
    return failures


def _to_key(name: str, arguments: Mapping[str, object]) -> Key:
    # Sorted keys: the order of the arguments makes no difference.
    return name, json.dumps(arguments, sort_keys=True)
