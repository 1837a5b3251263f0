"""The circuit breaker: ends the turn when a tool keeps failing with the same error.

Failures are counted from the journal, so that the count continues when another worker takes over the turn.
"""

import re
from collections.abc import Iterable, Sequence

from agent.journal.steps import Step
from shared.errors import ToolKeepsFailing

LIMIT = 3
SHOWN_CHARS = 300
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
NUMBER = re.compile(r"\d+")


def check(steps: Sequence[Step]) -> None:
    """Raise `ToolKeepsFailing` when a tool has failed with the same error in `LIMIT` waves in a row.

    Equal errors within one wave count once. A call of the tool that does not fail resets its count.
    """
    counts: dict[str, tuple[str, int]] = {}
    for wave in _waves(step for step in steps if step.tool.outcome != "not_run"):
        for tool in {step.tool.name for step in wave}:
            results = [step for step in wave if step.tool.name == tool]
            if any(step.tool.outcome != "failed" for step in results):
                counts.pop(tool, None)
                continue
            reason = str(results[-1].value.get("message", ""))
            last, count = counts.get(tool, ("", 0))
            counts[tool] = (_normalised(reason), count + 1 if _normalised(reason) == last else 1)
            if counts[tool][1] >= LIMIT:
                raise ToolKeepsFailing(tool=tool, reason=reason[:SHOWN_CHARS].rstrip("."))


def _waves(steps: Iterable[Step]) -> list[list[Step]]:
    # Groups the tool results by the model answer they follow. Calls that were not run are no evidence about their tool.
    waves: list[list[Step]] = []
    for step in sorted(steps, key=lambda each: each.seq):
        if step.role == "assistant":
            waves.append([])
        elif step.role == "tool_result" and waves:
            waves[-1].append(step)
    return waves


def _normalised(message: str) -> str:
    # Errors that differ only in numbers or quoted names count as the same error.
    return " ".join(NUMBER.sub("#", QUOTED.sub("…", message.lower())).split())
