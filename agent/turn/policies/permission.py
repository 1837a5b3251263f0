"""Runs a call only if its tool exists and the user may use it in this place."""

from agent.tools.calls import PendingCall
from agent.tools.outcomes import Failed
from agent.tools.toolbox import Toolbox


class Permitted:
    """Stops calls of tools that are missing or not permitted; the toolbox decides by the same rule as for the offer."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    async def check(self, call: PendingCall) -> PendingCall | Failed:
        """Stop a call whose tool is missing or not permitted."""
        return self._toolbox.refuse(call) or call
