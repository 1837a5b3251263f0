"""Runs the tool calls of one model answer concurrently; the failure of one does not cancel the others."""

import asyncio
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Self

from agent.people.billing.budget import release
from agent.tools.calls import CallingTurn, PendingCall
from agent.tools.outcomes import Outcome, kind_of
from agent.turn.policies.calls import Approval, Interruption, Permitted, Repetition, Surplus, check_call
from agent.turn.policies.taint import TaintGuard, TurnTaint
from agent.turn.running import RunningTurn
from agent.turn.services import TurnServices
from agent.turn.tool_models import ToolModels
from shared.tasks import LEAVE_SECONDS
from shared.tools import ToolContext
from shared.tracing.spans import Attributes, span

# Outcomes that arrive within this time of each other are recorded in one transaction.
GROUPING_SECONDS = 0.005

Finished = tuple[PendingCall, Outcome]


class ToolBatch:
    """Runs the calls that no policy stops, so many at a time; leaving the `async with` block cancels them.

    `interrupted` are the ids of calls that an earlier attempt at the turn may have begun, in their order.
    """

    def __init__(
        self, services: TurnServices, turn: RunningTurn, taint: TurnTaint, interrupted: Sequence[str] = ()
    ) -> None:
        self._services, self._turn, self._taint = services, turn, taint
        # They check every call in this order.
        self._policies = (
            Surplus(turn.log),
            *services.models.modes[turn.loop_mode].policies(turn),
            Repetition(turn.log.steps),
            Interruption(interrupted),
            Approval(services.database, services.settings, services.toolbox, key=turn.key, interrupted=interrupted),
            Permitted(services.toolbox),
            TaintGuard(taint, services.toolbox, turn.log),
        )
        self._slots = asyncio.Semaphore(services.settings.wave_width)
        self._running: set[asyncio.Task[Finished]] = set()

    async def start(self, calls: Sequence[PendingCall]) -> None:
        """Check all of these calls with the policies, then start them, so that no check sees another call's effects."""
        spend = self._turn.spend
        if spend.admission.is_admitted and any(call.tool is not None and call.tool.spends_budget for call in calls):
            # These tools call models themselves. If this turn kept its reservation, they could wait for budget that
            # this turn only frees after they have finished.
            async with self._services.database.statement() as session:
                await release(session, self._turn.key.id)
            spend.release()
        pairs = [(call, await check_call(self._policies, call)) for call in calls]
        self._running |= {asyncio.create_task(self._finish(*pair), name=pair[0].id) for pair in pairs}

    async def finished(self) -> list[Finished]:
        """Wait until calls finish and return them with their outcomes; an empty list when none are running."""
        if not self._running:
            return []
        await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        tasks, self._running = await asyncio.wait(self._running, timeout=GROUPING_SECONDS)
        return [task.result() for task in tasks]

    async def _finish(self, call: PendingCall, verdict: PendingCall | Outcome) -> Finished:
        if not isinstance(verdict, PendingCall):
            return call, verdict
        # A name that the model made up may hold anything.
        name = verdict.tool.name if verdict.tool is not None else "unknown"
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.id,
        }
        async with self._slots:
            with span(f"execute_tool {name}", attributes) as current_span:
                turn = self._turn
                calling = CallingTurn(
                    key=turn.key,
                    message=turn.message,
                    user=turn.user,
                    conversation=turn.conversation,
                    scope=verdict.scope,
                    deadline=turn.deadline,
                    numbers=turn.spend.numbers,
                    find_taint=partial(self._taint.find, turn.log),
                    list_said=self._taint.list_said,
                )
                outcome = await self._services.toolbox.call(verdict, self._build_context(verdict), calling)
                turn.spend.add_work(outcome.work)
                current_span.note({"parley.outcome": kind_of(outcome)})
        return call, outcome

    def _build_context(self, call: PendingCall) -> ToolContext:
        # User, place and conversation come from the turn, never from the model.
        services, turn, outflow = self._services, self._turn, self._turn.announcer.outflow
        place, user, conversation = turn.conversation.place, turn.user, turn.conversation
        files = services.files.storage.of_user(
            services.database,
            user.id,
            conversation.id,
            turn.key.id,
            holds_secret=outflow.holds_secret,
            author=call.author,
        )
        return ToolContext(
            user=call.scope.user,
            place=place,
            conversation_id=conversation.id,
            turn_id=turn.key.id,
            call_id=call.id,
            module=call.tool.module if call.tool is not None else "",
            clock=services.clock,
            http=services.files.http,
            storage=files,
            memory=services.memory.of_user(user.id, place, conversation.id, turn_id=turn.key.id, author=call.author),
            database=services.database,
            app_settings=services.settings,
            agreed_to=call.agreed_to,
            author=call.author,
            credentials=services.credentials.of_user(user.id, turn.message.credentials, outflow.hide),
            models=ToolModels(services, turn) if call.tool is not None and call.tool.spends_budget else None,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Calls are only still running here after a stop, the deadline, or when another worker took over the turn.
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=LEAVE_SECONDS)
