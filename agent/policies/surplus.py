"""Surplus: one model answer may hold so many calls; the first one too many is answered, the rest are left out."""

import json

from agent.journal.log import TurnLog
from agent.journal.positions import call_seq
from agent.prompts import prompts
from agent.tools.calls import PendingCall
from agent.tools.outcomes import Failed

# One call more than may run is recorded; its result tells the model that the rest was left out.
MAX_CALLS = 32


class Surplus:
    """Stops the call behind the last one that an answer may hold."""

    def __init__(self, log: TurnLog) -> None:
        self._log = log

    async def check(self, call: PendingCall) -> PendingCall | Failed:
        """Stop a call that is one too many in its answer."""
        if all(call.seq != call_seq(answer.seq, MAX_CALLS) for answer in self._log.answers):
            return call
        return Failed(json.dumps({"error": True, "message": prompts().turn.too_many_calls.format(most=MAX_CALLS)}))
