"""Permission: a call is made only of a tool that is there and that this person may use here."""

from agent.tools.calls import PendingCall
from agent.tools.outcomes import Failed
from agent.tools.toolbox import Toolbox


class Permitted:
    """Stops calls of tools that are not offered any more; the toolbox decides, as it does for the offer."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    async def check(self, call: PendingCall) -> PendingCall | Failed:
        """Stop a call that may not be made."""
        return self._toolbox.refuse(call) or call
