"""Limits the number of tool calls in one model answer; the first call over the limit fails, the rest are dropped."""

import json

from agent.journal.positions import call_seq
from agent.journal.steps import TurnLog
from agent.prompts import prompts
from agent.tools.calls import PendingCall
from agent.tools.outcomes import Failed

# One call more than this is recorded; its result tells the model that the rest was dropped.
MAX_CALLS = 32


class Surplus:
    """Stops the first call of an answer that is over the limit."""

    def __init__(self, log: TurnLog) -> None:
        self._log = log

    async def check(self, call: PendingCall) -> PendingCall | Failed:
        """Stop the call if it is over the limit of its answer."""
        if all(call.seq != call_seq(answer.seq, MAX_CALLS) for answer in self._log.answers):
            return call
        return Failed(json.dumps({"error": True, "message": prompts().turn.too_many_calls.format(most=MAX_CALLS)}))
