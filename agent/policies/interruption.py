"""Interruption: a call with effects that an earlier attempt may have begun is not made a second time."""

from collections.abc import Collection

from agent.tools.calls import PendingCall
from agent.tools.outcomes import Failed, unknown_outcome


class Interruption:
    """Stops the calls with these ids, which come from the journal of an attempt that was cut off, if they have effects.

    A call that carries out an answered question has its own safeguard: the yes to it can be spent once.
    """

    def __init__(self, interrupted: Collection[str]) -> None:
        self._interrupted = frozenset(interrupted)

    async def check(self, call: PendingCall) -> PendingCall | Failed:
        """Stop a call whose effect may have happened; the model is told that its outcome is unknown."""
        tool = call.tool
        if call.id not in self._interrupted or call.confirmation is not None or tool is None:
            return call
        return call if tool.read_only or tool.resumable else unknown_outcome()
