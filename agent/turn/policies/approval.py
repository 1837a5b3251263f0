"""Runs calls that the user was asked about only if they approved them, and only once."""

import json
from dataclasses import replace

from agent.journal.steps import TurnKey
from agent.prompts import prompts
from agent.tools.calls import PendingCall
from agent.tools.outcomes import Failed, NotRun, not_run, unknown_outcome
from agent.tools.toolbox import Toolbox
from agent.turn.confirmations.rows import Agreed, consume
from shared.db.database import Database
from shared.errors import ToolError


class Approval:
    """Consumes the approval of calls, and lets them run in the scope of the agent that requested them.

    The calls of one question are checked before the first of them starts, so they consume their approval together.
    """

    def __init__(self, database: Database, toolbox: Toolbox, key: TurnKey) -> None:
        self._database, self._toolbox, self._key = database, toolbox, key
        self._agreed: dict[int, Agreed | None] = {}
        self._begun: set[str] = set()

    async def check(self, call: PendingCall) -> PendingCall | Failed | NotRun:
        """Stop a call that was denied or whose approval is consumed; add the approved question to the others."""
        if call.confirmation is None:
            return call
        if not call.confirmation["approved"]:
            return Failed(json.dumps({"error": True, "message": prompts().confirmation.denied}))
        confirmation_id = call.confirmation["id"]
        if confirmation_id not in self._agreed:
            self._agreed[confirmation_id] = await consume(self._database, self._key, confirmation_id)
        agreed = self._agreed[confirmation_id]
        if agreed is None or call.id in self._begun:
            # The approval was consumed before: an earlier attempt started the call, and its outcome is unknown.
            return unknown_outcome()
        self._begun.add(call.id)
        question = agreed.questions[call.confirmation.get("number", 0)]
        if agreed.agent is None:
            return replace(call, agreed_to=question)
        try:
            scope = await self._toolbox.find_scope(call.scope, agreed.agent)
        except ToolError as error:
            return not_run(str(error))
        offer = self._toolbox.offered_to(scope)
        return replace(call, agreed_to=question, scope=scope, offer=offer)
