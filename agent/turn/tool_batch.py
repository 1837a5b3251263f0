"""Runs the tool calls of one model answer concurrently; the failure of one does not cancel the others."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from agent.policies.base import Policy, check_call
from agent.tools.calls import PendingCall
from agent.tools.outcomes import Outcome, kind_of
from shared.tasks import LEAVE_SECONDS
from shared.tracing.spans import Attributes, span

# Outcomes that arrive within this time of each other are recorded in one transaction.
GROUPING_SECONDS = 0.005

Finished = tuple[PendingCall, Outcome]
RunTool = Callable[[PendingCall], Awaitable[Outcome]]


class ToolBatch:
    """Runs the calls that no policy stops, at most `width` at a time; leaving the `async with` block cancels them."""

    def __init__(self, policies: Sequence[Policy], run: RunTool, width: int) -> None:
        self._policies, self._run = policies, run
        self._slots = asyncio.Semaphore(width)
        self._running: set[asyncio.Task[Finished]] = set()

    async def start(self, calls: Sequence[PendingCall]) -> None:
        """Check all of these calls with the policies, then start them, so that no check sees another call's effects."""
        checked = [(call, await check_call(self._policies, call)) for call in calls]
        self._running |= {asyncio.create_task(self._finish(*each), name=each[0].id) for each in checked}

    async def finished(self) -> list[Finished]:
        """Wait until calls finish and return them with their outcomes; an empty list when none are running."""
        if not self._running:
            return []
        await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        done, self._running = await asyncio.wait(self._running, timeout=GROUPING_SECONDS)
        return [each.result() for each in done]

    async def _finish(self, call: PendingCall, checked: PendingCall | Outcome) -> Finished:
        if not isinstance(checked, PendingCall):
            return call, checked
        # A name that the model made up may hold anything.
        name = checked.tool.name if checked.tool is not None else "unknown"
        given: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.id,
        }
        async with self._slots:
            with span(f"execute_tool {name}", given) as opened:
                outcome = await self._run(checked)
                opened.note({"parley.outcome": kind_of(outcome)})
        return call, outcome

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
