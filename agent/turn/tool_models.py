"""Model calls that tools make, paid from the same budget as the turn's own."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from agent.billing.budget import AdmissionStatus, Reservation, reserve
from agent.billing.ledger import PaidCall, Payment, add_usage
from agent.journal.turns import pay, settle
from agent.llm.completions import CallObserver, ModelRequest, RejectedCall
from agent.llm.tokens import count_prompt
from agent.turn.running import RESERVATION_SLACK_SECONDS, RunningTurn
from agent.turn.services import TurnServices
from shared.db.retries import retry_on_lost_db
from shared.errors import BudgetBusy, PromptTooLong, Refusal, ToolError
from shared.tasks import shield_until_done

PURPOSE = "tool"
BUDGET_WAIT_SECONDS = 0.5
TOO_LONG = "The text is longer than the language model can read at once."


@dataclass(frozen=True, slots=True)
class ToolModels:
    """The models of a turn for one of its tools. Calls of tools of the same turn are made one after the other."""

    services: TurnServices
    turn: RunningTurn

    async def complete(self, prompt: str, *, instructions: str, max_tokens: int) -> str:
        """Return a model's answer; raises `ToolError` for a refusal by the budget, `Unavailable` without any model."""
        messages = [{"role": "user", "content": prompt}]
        if instructions:
            messages.insert(0, {"role": "system", "content": instructions})
        model, spend = self.turn.persona.model, self.turn.spend
        async with spend.one_call:
            request = ModelRequest(
                messages=tuple(messages),
                tools=(),
                max_tokens=max_tokens,
                models=(model,) if model else (),
                position=spend.next_number(),
                tokens=count_prompt(messages) + max_tokens,
            )
            try:
                return await self._ask(request)
            except PromptTooLong as error:
                raise ToolError(TOO_LONG) from error
            except Refusal as error:
                raise ToolError(str(error)) from error

    async def _ask(self, request: ModelRequest) -> str:
        spent: list[RejectedCall] = []
        await self._admit(request)
        try:
            completion = await self.services.router.complete(
                request,
                deadline=self.turn.deadline,
                observer=CallObserver(spent=spent, pay=partial(self._pay_rejected, request, spent)),
            )
            spent.append(RejectedCall(completion.model, completion.usage))
        finally:
            await shield_until_done(self._settle(spent))
        return completion.text

    async def _admit(self, request: ModelRequest) -> None:
        # Waits as long as only other calls of the same person hold the rest of the budget.
        wanted = Reservation(
            self.turn.user.id,
            self.turn.key.id,
            self.turn.key.attempt,
            tokens=request.tokens or 0,
            seconds=self._seconds_left + RESERVATION_SLACK_SECONDS,
        )
        while True:
            async with self.services.database.statement() as session:
                admission = await reserve(session, wanted)
            if admission.is_admitted:
                return
            if admission.status is AdmissionStatus.EXHAUSTED:
                raise admission.refusal()
            if self._seconds_left < 1:
                raise BudgetBusy
            await asyncio.sleep(BUDGET_WAIT_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311  # jitter, not a secret

    async def _pay_rejected(self, request: ModelRequest, spent: list[RejectedCall]) -> None:
        # An answer that was rejected costs tokens too, so the budget has to admit the attempt after it.
        async def write() -> bool:
            payment = Payment(_to_paid(spent), request.tokens or 0, self._seconds_left + RESERVATION_SLACK_SECONDS)
            async with self.services.database.statement() as session:
                admission = await pay(session, self.turn.key, payment)
            self._count(spent)
            spent.clear()
            return admission.is_admitted

        if not await shield_until_done(write()):
            await self._admit(request)

    async def _settle(self, spent: Sequence[RejectedCall]) -> None:
        async def write() -> None:
            async with self.services.database.statement() as session:
                await settle(session, self.turn.key, _to_paid(spent))

        await retry_on_lost_db(write, self._seconds_left)
        self._count(spent)

    def _count(self, calls: Sequence[RejectedCall]) -> None:
        for each in calls:
            self.turn.spend.usage = add_usage(self.turn.spend.usage, each.usage)

    @property
    def _seconds_left(self) -> float:
        return max(0.0, self.turn.deadline - self.services.clock.monotonic())


def _to_paid(calls: Sequence[RejectedCall]) -> list[PaidCall]:
    return [PaidCall(each.model, each.usage, PURPOSE) for each in calls]
