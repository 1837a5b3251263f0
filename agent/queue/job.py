"""The job that runs the next turn of a place, and the messages that the turn answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.billing.budget import PaidCall
from agent.journal.steps import TurnKey
from agent.queue.slots import Slot
from shared.messages import IncomingMessage

# At most so many messages of a person are answered by one turn.
MAX_COALESCED = 50


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
