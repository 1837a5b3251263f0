"""Repetition: a call that has failed in this turn is not run again with the same arguments.

It is read from the journal, so that a turn taken over by another worker remembers.
"""

import json
from collections.abc import Mapping, Sequence

from agent.journal.steps import Step
from agent.prompts import prompts
from agent.tools.calls import PendingCall
from agent.tools.outcomes import Failed

Key = tuple[str, str]


class Repetition:
    """Stops the calls that had failed before this wave of tools began, and tells their errors again."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._failures = find_failures(steps)

    async def check(self, call: PendingCall) -> PendingCall | Failed:
        """Stop a call that is known to fail."""
        known = self._failures.get(_to_key(call.name, call.arguments)) if self._failures else None
        if known is None:
            return call
        told = {**json.loads(known), "hint": prompts().turn.repeated_call}
        return Failed(json.dumps(told, ensure_ascii=False))


def find_failures(steps: Sequence[Step]) -> dict[Key, str]:
    """Return the calls that failed and did not succeed since, by tool and arguments, each with its error result."""
    calls = {step.tool_call_id: step for step in steps if step.role == "tool_call"}
    failures: dict[Key, str] = {}
    for step in steps:
        # A call that was left out says nothing about its tool.
        if step.role != "tool_result" or step.outcome == "not_run":
            continue
        call = calls[step.tool_call_id]
        if step.outcome == "failed":
            failures[_to_key(str(call.tool_name), call.value)] = step.content
        elif failures:
            failures.pop(_to_key(str(call.tool_name), call.value), None)
    return failures


def _to_key(name: str, arguments: Mapping[str, object]) -> Key:
    # The same call whatever the order of its arguments.
    return name, json.dumps(arguments, sort_keys=True)
