"""What a policy is: it lets a call go on, perhaps with more known of it, or says what the call comes to instead."""

from collections.abc import Sequence
from typing import Protocol

from agent.tools.calls import PendingCall
from agent.tools.outcomes import Outcome


class Policy(Protocol):
    """Stands before every call of a turn."""

    async def check(self, call: PendingCall) -> PendingCall | Outcome:
        """Return the call when it may go on, otherwise what it comes to without being run."""
        ...


async def check_call(policies: Sequence[Policy], call: PendingCall) -> PendingCall | Outcome:
    """Return what a call comes to by the first policy that stops it; the call when none does."""
    for policy in policies:
        checked = await policy.check(call)
        if not isinstance(checked, PendingCall):
            return checked
        call = checked
    return call
