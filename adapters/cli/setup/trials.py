"""Tries what was typed against the real thing, and what to do when it does not work."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal

from adapters.cli.console import complain, progress
from adapters.cli.findings import Finding
from adapters.cli.setup.interview import Interview, Values
from shared.errors import ParleyError, Refusal
from shared.settings import withdraw_values

LEAVE = "Leave it out"


def run_trial(subject: str, attempt: Coroutine[Any, Any, Sequence[Finding]], text: str = "trying it") -> list[Finding]:
    """Return the findings of an attempt; an error of ours is one."""
    try:
        with progress(text):
            return list(asyncio.run(attempt))
    except ParleyError as error:
        return [Finding("fail", subject, str(error))]


def decide(interview: Interview, findings: Sequence[Finding], leave: str) -> Literal["keep", "again", "leave"]:
    """Show the findings and return what becomes of the values; a pipe has to give some that work.

    What could not be tried, because the other side can't be reached, is kept with a warning.
    """
    for finding in findings:
        level = "warn" if finding.is_outage else finding.level
        interview.tell(f"  {level:4}  {finding.text}", "        ")
    failures = [finding for finding in findings if finding.level == "fail"]
    if not failures:
        return "keep"
    if all(finding.is_outage for finding in failures):
        complain("this could not be tried now, and is kept; `parley doctor` tries it again")
        return "keep"
    if not interview.is_at_keyboard:
        raise Refusal("This does not work, and nothing was written.")
    choices: tuple[Literal["again", "keep", "leave"], ...] = ("again", "keep", "leave")
    return choices[interview.choose("That did not work. What now?", ("Type it again", "Keep it as it is", leave), 0)]


def ask_until_it_works(
    interview: Interview,
    ask: Callable[[], Values],
    attempt: Callable[[Values], tuple[Values, Sequence[Finding]]],
    *,
    leave: str = LEAVE,
) -> Values:
    """Return the values that are kept, as `attempt` makes them of the answers; nothing if they are left out."""
    while answers := ask():
        values, findings = attempt(answers)
        verdict = decide(interview, findings, leave)
        if verdict == "keep":
            return values
        withdraw_values(values)
        if verdict == "leave":
            break
    return {}
