"""The circuit breaker: ends the turn when a tool keeps failing with the same error about the same arguments.

Failures are counted from the journal, so that the count continues when another worker takes over the turn.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agent.journal.steps import Step
from shared.errors import ToolKeepsFailing

LIMIT = 3
SHOWN_CHARS = 300
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
NUMBER = re.compile(r"\d+")

# The tool, its error and the arguments that matter.
Failure = tuple[str, str, str]


def check(steps: Sequence[Step]) -> None:
    """Raise `ToolKeepsFailing` when a tool has failed in the same way in `LIMIT` waves in a row.

    Equal errors within one wave count once. A call of the tool that succeeds resets its counts, and so does a wave in
    which other tools succeed and this one does not fail.
    """
    arguments = {step.tool.call_id: step.value for step in steps if step.role == "tool_call"}
    # The results by the model answer that they follow. Calls that were not run are no evidence about their tool.
    waves: list[list[Step]] = []
    for step in sorted(steps, key=lambda step: step.seq):
        if step.role == "assistant":
            waves.append([])
        elif step.role == "tool_result" and step.tool.outcome != "not_run" and waves:
            waves[-1].append(step)
    counts: Counter[Failure] = Counter()
    for wave in waves:
        succeeded = {step.tool.name for step in wave if step.tool.outcome != "failed"}
        failed = {
            _to_failure(step, arguments.get(step.tool.call_id, {})): step
            for step in wave
            if step.tool.outcome == "failed" and step.tool.name not in succeeded
        }
        if succeeded:
            failing = {tool for tool, *_ in failed}
            counts = Counter({failure: count for failure, count in counts.items() if failure[0] in failing})
        counts.update(failed.keys())
        for failure, step in failed.items():
            if counts[failure] >= LIMIT:
                reason = str(step.value.get("message", ""))
                raise ToolKeepsFailing(tool=step.tool.name, reason=reason[:SHOWN_CHARS].rstrip("."))


def _to_failure(step: Step, arguments: Mapping[str, Any]) -> Failure:
    message = str(step.value.get("message", ""))
    mentions = {}
    for name, value in arguments.items():
        if isinstance(value, str):
            is_mentioned = len(value) > 1 and value in message
        else:
            is_mentioned = type(value) is int and re.search(rf"(?<!\d){value}(?!\d)", message) is not None
        if is_mentioned:
            mentions[name] = value
    # The arguments that the error names, otherwise all of them. A service that is down fails for any arguments.
    relevant = {} if step.value.get("temporary") else mentions or arguments
    # Another case or other spaces make no other try.
    matter = {
        name: " ".join(value.lower().split()) if isinstance(value, str) else value for name, value in relevant.items()
    }
    # Errors that differ only in numbers or quoted names count as the same error.
    return (
        step.tool.name,
        " ".join(NUMBER.sub("#", QUOTED.sub("…", message.lower())).split()),
        json.dumps(matter, sort_keys=True),
    )
