"""The interface of a policy: it lets a call continue, possibly with added fields, or returns an outcome instead."""

from collections.abc import Sequence
from typing import Protocol

from agent.tools.calls import PendingCall
from agent.tools.outcomes import Outcome


class Policy(Protocol):
    """Checks every tool call of a turn before it runs."""

    async def check(self, call: PendingCall) -> PendingCall | Outcome:
        """Return the call if it may continue, otherwise its outcome; the call is then not run."""
        ...


async def check_call(policies: Sequence[Policy], call: PendingCall) -> PendingCall | Outcome:
    """Apply the policies in order; return the outcome from the first one that stops the call, or the checked call."""
    for policy in policies:
        checked = await policy.check(call)
        if not isinstance(checked, PendingCall):
            return checked
        call = checked
    return call
