"""Runs calls that the user was asked about only if they approved them, and only once."""

import json
from collections.abc import Sequence
from dataclasses import replace

from agent.journal.steps import TurnKey
from agent.prompts import prompts
from agent.tools.calls import PendingCall
from agent.tools.outcomes import Failed, NotRun, not_run, unknown_outcome
from agent.tools.toolbox import Toolbox
from agent.turn.confirmations.rows import consume, find_consumed
from shared.db.database import Database
from shared.errors import ToolError


class Approval:
    """Consumes the approval of calls, and lets them run in the scope of the agent that requested them.

    The first call of a question consumes its approval. Each of the others comes here once the result of the one before
    is recorded, so of those that an earlier attempt has left, the `interrupted`, it can only have begun the first.
    """

    def __init__(self, database: Database, toolbox: Toolbox, key: TurnKey, interrupted: Sequence[str] = ()) -> None:
        self._database, self._toolbox, self._key = database, toolbox, key
        self._interrupted = interrupted

    async def check(self, call: PendingCall) -> PendingCall | Failed | NotRun:
        """Stop a call that was denied or whose approval is consumed; add the approved question to the others."""
        if call.confirmation is None:
            return call
        if not call.confirmation["approved"]:
            return Failed(json.dumps({"error": True, "message": prompts().confirmation.denied}))
        confirmation_id, number = call.confirmation["id"], call.confirmation.get("number", 0)
        if number == 0:
            agreed = await consume(self._database, self._key, confirmation_id)
        elif call.id in self._interrupted[:1]:
            agreed = None
        else:
            agreed = await find_consumed(self._database, self._key, confirmation_id)
        if agreed is None:
            # An earlier attempt may have started the call, and its outcome is unknown.
            return unknown_outcome()
        question = agreed.questions[number]
        if agreed.agent is None:
            return replace(call, agreed_to=question)
        try:
            scope = await self._toolbox.find_scope(call.scope, agreed.agent)
        except ToolError as error:
            return not_run(str(error))
        offer = self._toolbox.offered_to(scope)
        return replace(call, agreed_to=question, scope=scope, offer=offer)
