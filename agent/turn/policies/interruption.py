"""Does not run a call with effects again when an interrupted attempt may have started it."""

from collections.abc import Collection

from agent.tools.calls import PendingCall
from agent.tools.outcomes import Failed, unknown_outcome


class Interruption:
    """Stops those of the given calls that have effects; they were open in the journal of an interrupted attempt.

    Calls that the user was asked about are not stopped here: their approval can be consumed only once.
    """

    def __init__(self, interrupted: Collection[str]) -> None:
        self._interrupted = frozenset(interrupted)

    async def check(self, call: PendingCall) -> PendingCall | Failed:
        """Stop a call whose effect may already have happened; its outcome tells the model that this is unknown."""
        tool = call.tool
        if call.id not in self._interrupted or call.confirmation is not None or tool is None:
            return call
        return call if tool.read_only or tool.resumable else unknown_outcome()
