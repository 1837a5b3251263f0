"""Asks the model of summaries, on the budget of the conversation that is read."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec import Struct, field

from agent.llm.completions import CallObserver, Completion, ModelRequest, RejectedCall, count_prompt
from agent.llm.router import Router
from agent.memory.summaries import claims
from agent.memory.summaries.claims import Claim
from agent.people.billing.budget import PaidCall
from shared.clock import Clock
from shared.db.database import Database
from shared.errors import PromptTooLong, Unavailable
from shared.messages import EstimatedUsage
from shared.tasks import shield_until_done

CALL_SECONDS = 90.0
SOURCE_TOKENS = 12_000
# Of a model's window: the rest is for the notes, the answer and a tokenizer that counts more than we do.
WINDOW_SHARE = 0.4
# The facts in an answer.
FACTS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "message": {"type": "integer"},
            "fact": {"type": "string"},
            "confidence": {"type": "number"},
            "replaces": {"type": ["integer", "null"]},
        },
        "required": ["message", "fact", "confidence", "replaces"],
        "additionalProperties": False,
    },
}


class ModelAnswer(Struct, frozen=True):
    """What a model call gave: the completion, or why there is none. `paid` are its calls for the ledger."""

    completion: Completion | None
    fault: str = ""
    paid: Sequence[PaidCall] = field(default_factory=tuple)


Fail = Callable[[Claim, ModelAnswer, str], Coroutine[Any, Any, None]]


class SummaryModel:
    """The model that reads conversations in the background; `purpose` is what its calls are on the ledger."""

    def __init__(self, database: Database, router: Router, clock: Clock, *, purpose: str = "summary") -> None:
        self._database, self._router, self._clock, self._purpose = database, router, clock, purpose

    def source_tokens(self, model: str | None) -> int:
        """Return how many tokens of a conversation the model reads at once."""
        window = self._router.window((model,)) if model is not None else None
        return SOURCE_TOKENS if window is None else min(SOURCE_TOKENS, int(window * WINDOW_SHARE))

    async def charge_estimate(self, claimed: Claim) -> None:
        """Charge the call of a worker that died during it, which the provider may bill; what it held goes back.

        What was held is charged: how much of it was allowed for the answer is known to the call alone.
        """
        if not claimed.tokens_held:
            return
        model = await self._router.find_summary_model()
        call = PaidCall(model or "unknown", EstimatedUsage(claimed.tokens_held), self._purpose)
        async with self._database.transaction() as session:
            await claims.pay(session, claimed, [call])

    async def ask(self, claimed: Claim, request: ModelRequest, fail: Fail) -> ModelAnswer:
        """Ask within the budget; `fail` ends the claim when the worker stops meanwhile."""
        tokens = count_prompt(request.messages) + request.max_tokens
        price = self._router.highest_price(*request.models)
        async with self._database.statement() as session:
            if not await claims.hold(session, claimed, tokens, cost=None if price is None else tokens * price):
                return ModelAnswer(None, "the budget does not admit it")
        spent: list[RejectedCall] = []
        deadline = self._clock.monotonic() + CALL_SECONDS
        try:
            completion = await self._router.complete(
                request, deadline=deadline, observer=CallObserver(spent=spent), is_background=True
            )
        except (Unavailable, PromptTooLong) as error:
            return ModelAnswer(None, f"no model answered: {error}", self._to_paid(spent))
        except asyncio.CancelledError:
            # What was spent is paid, and another worker begins again at once.
            await shield_until_done(fail(claimed, ModelAnswer(None, paid=self._to_paid(spent)), "the worker stopped"))
            raise
        return ModelAnswer(completion, paid=self._to_paid([*spent, RejectedCall(completion.model, completion.usage)]))

    def _to_paid(self, calls: Sequence[RejectedCall]) -> tuple[PaidCall, ...]:
        return tuple(PaidCall(call.model, call.usage, self._purpose) for call in calls)


def find_object(answer: str) -> dict[str, Any] | None:
    """Return the JSON object in an answer; None if there is none."""
    start, end = answer.find("{"), answer.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        document = json.loads(answer[start : end + 1])
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
