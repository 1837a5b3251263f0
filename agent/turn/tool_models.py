"""Model calls that tools make, paid from the same budget as the turn's own."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from agent.billing.budget import AdmissionStatus, Reservation, reserve
from agent.billing.ledger import PaidCall, Payment, add_usage
from agent.journal.turns import pay, settle
from agent.llm.completions import CallObserver, ModelRequest, RejectedCall
from agent.llm.tokens import count_prompt
from agent.turn.running import RESERVATION_SLACK_SECONDS, RunningTurn
from agent.turn.services import TurnServices
from shared.db.database import DatabaseLost
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
                return await self._ask(_Call(request))
            except PromptTooLong as error:
                raise ToolError(TOO_LONG) from error
            except Refusal as error:
                raise ToolError(str(error)) from error

    async def _ask(self, call: "_Call") -> str:
        try:
            await self._admit(call)
            completion = await self.services.router.complete(
                call.request,
                deadline=self.turn.deadline,
                observer=CallObserver(spent=call.spent, pay=partial(self._pay_rejected, call)),
            )
            call.spent.append(RejectedCall(completion.model, completion.usage))
        finally:
            # Also when only the acknowledgement of the reservation was lost.
            await shield_until_done(self._settle(call))
        return completion.text

    async def _admit(self, call: "_Call") -> None:
        # Waits as long as only other calls of the same person hold the rest of the budget.
        wanted = Reservation(
            self.turn.user.id,
            self.turn.key.id,
            self.turn.key.attempt,
            tokens=call.request.tokens or 0,
            seconds=self._seconds_left + RESERVATION_SLACK_SECONDS,
        )
        while True:
            async with self.services.database.statement() as session:
                admission = await reserve(session, wanted)
            call.reservation_id = admission.reservation_id
            if admission.is_admitted:
                return
            if admission.status is AdmissionStatus.EXHAUSTED:
                raise admission.refusal()
            if self._seconds_left < 1:
                raise BudgetBusy
            await asyncio.sleep(BUDGET_WAIT_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311  # jitter, not a secret

    async def _pay_rejected(self, call: "_Call") -> None:
        # An answer that was rejected costs tokens too, so the budget has to admit the attempt after it.
        async def write() -> bool:
            seconds = self._seconds_left + RESERVATION_SLACK_SECONDS
            async with self.services.database.statement() as session:
                admission = await pay(session, self.turn.key, Payment(call.paid, call.request.tokens or 0, seconds))
            self._count(call.spent)
            call.spent.clear()
            call.reservation_id = admission.reservation_id
            return admission.is_admitted

        if not await shield_until_done(write()):
            await self._admit(call)

    async def _settle(self, call: "_Call") -> None:
        async def write() -> None:
            async with self.services.database.statement() as session:
                await settle(session, self.turn.key, call.paid)

        self._count(call.spent)
        try:
            await retry_on_lost_db(write, self._seconds_left)
        except DatabaseLost:
            # The next attempt at the turn pays for it.
            self.turn.spend.unpaid.extend(call.paid)
            raise

    def _count(self, calls: Sequence[RejectedCall]) -> None:
        for each in calls:
            self.turn.spend.usage = add_usage(self.turn.spend.usage, each.usage)

    @property
    def _seconds_left(self) -> float:
        return max(0.0, self.turn.deadline - self.services.clock.monotonic())


@dataclass(slots=True)
class _Call:
    """One model call: its unpaid attempts, and the reservation that it is made with."""

    request: ModelRequest
    spent: list[RejectedCall] = field(default_factory=list)
    reservation_id: int | None = None

    @property
    def paid(self) -> list[PaidCall]:
        """Return the attempts in the ledger's form."""
        return [PaidCall(each.model, each.usage, PURPOSE, reservation_id=self.reservation_id) for each in self.spent]
