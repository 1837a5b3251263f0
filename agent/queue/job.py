"""The job that runs the next turn of a place, the slot that it holds, and the messages that the turn answers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from agent.billing.budget import PaidCall
from agent.journal.steps import TurnKey
from shared.messages import IncomingMessage

# At most so many messages of a person are answered by one turn.
MAX_COALESCED = 50


@dataclass(eq=False, slots=True)
class Slot:
    """The slot of one job. Without `running` it is unlimited, as for the turns of delegated tasks.

    A turn leaves its slot while it waits for something else than a model. It gets one again within `return_seconds`,
    or goes on without one.
    """

    running: asyncio.Semaphore | None = None
    return_seconds: float = 0.0
    is_held: bool = False

    async def enter(self) -> None:
        """Wait for a free slot, unless this job holds one; go on without one when none becomes free in time."""
        if self.running is None or self.is_held:
            return
        # Not for ever: the jobs that hold the slots may themselves wait until this one ends, as suspects do.
        with suppress(TimeoutError):
            async with asyncio.timeout(self.return_seconds):
                await self.running.acquire()
                self.is_held = True

    @asynccontextmanager
    async def released(self) -> AsyncIterator[None]:
        """Leave the slot for the block, and wait for one after it; not after an exception, which ends the turn."""
        if self.running is not None and self.is_held:
            self.is_held = False
            self.running.release()
        yield
        await self.enter()


@dataclass(frozen=True, slots=True)
class Job:
    """A queued job: run the next turn of the place of the message `inbox_id`.

    `was_lost`: the previous attempt in this process lost the database connection, which does not count as a failure.
    `last_error`: the error of the previous attempt if it failed for another reason. `slot`: the worker's slot that the
    job holds. `deaths`: for a suspect, how often its worker died while it ran alone. `unpaid`: for each attempt that
    this process has begun, the model calls that it may have left unpaid.
    """

    id: int
    inbox_id: int
    was_lost: bool = False
    last_error: str | None = None
    slot: Slot = field(default_factory=Slot, compare=False)
    deaths: int | None = None
    unpaid: dict[TurnKey, Sequence[PaidCall]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Waiting:
    """An open message: one that waits for a turn, or whose turn is running (`turn_id`)."""

    inbox_id: int
    message: IncomingMessage
    turn_id: int | None
