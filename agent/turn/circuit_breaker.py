"""The circuit breaker: a tool that keeps failing in the same way ends the turn, and no failed call is run twice.

All of it is read from the journal, so that a turn taken over by another worker counts on.
"""

import json
import re
from collections.abc import Iterable, Sequence

from agent.journal.steps import Step
from shared.errors import ToolKeepsFailing

LIMIT = 3
SHOWN_CHARS = 300
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
NUMBER = re.compile(r"\d+")

Failures = dict[tuple[str, str], str]


def check(steps: Sequence[Step]) -> None:
    """Raise `ToolKeepsFailing` when a tool has failed three waves in a row with the same error.

    Equal errors within one wave count once; a success of the tool resets its count.
    """
    counts: dict[str, tuple[str, int]] = {}
    for wave in _waves(step for step in steps if not _was_left_out(step)):
        for tool in {str(step.tool_name) for step in wave}:
            errors = [_error_of(step) for step in wave if step.tool_name == tool]
            if None in errors:
                counts.pop(tool, None)
                continue
            reason = str(errors[-1])
            last, count = counts.get(tool, ("", 0))
            counts[tool] = (_normalised(reason), count + 1 if _normalised(reason) == last else 1)
            if counts[tool][1] >= LIMIT:
                raise ToolKeepsFailing(tool=tool, reason=reason[:SHOWN_CHARS].rstrip("."))


def failed_calls(steps: Sequence[Step]) -> Failures:
    """Return the calls of this turn that failed, by tool and arguments, each with its error result."""
    calls = {step.tool_call_id: step for step in steps if step.role == "tool_call"}
    failures: Failures = {}
    for step in steps:
        if step.role != "tool_result" or _was_left_out(step):
            continue
        if _error_of(step) is not None:
            failures[to_key(calls[step.tool_call_id])] = step.content
        elif failures:
            failures.pop(to_key(calls[step.tool_call_id]), None)
    return failures


def to_key(call: Step) -> tuple[str, str]:
    """Return what makes two calls the same: the tool and its arguments, whatever their order."""
    return str(call.tool_name), json.dumps(call.value, sort_keys=True)


def _was_left_out(step: Step) -> bool:
    # A planned call that was not run, because another one failed, says nothing about its tool.
    plain = step.value if step.role == "tool_result" else None
    return isinstance(plain, dict) and plain.get("error") is True and plain.get("not_run") is True


def _waves(steps: Iterable[Step]) -> list[list[Step]]:
    waves: list[list[Step]] = []
    for step in sorted(steps, key=lambda each: each.seq):
        if step.role == "assistant":
            waves.append([])
        elif step.role == "tool_result" and waves:
            waves[-1].append(step)
    return waves


def _error_of(result: Step) -> str | None:
    plain = result.value
    if isinstance(plain, dict) and plain.get("error") is True:
        return str(plain.get("message", ""))
    return None


def _normalised(message: str) -> str:
    # The same fault with another number or name in it is the same fault.
    return " ".join(NUMBER.sub("#", QUOTED.sub("…", message.lower())).split())
