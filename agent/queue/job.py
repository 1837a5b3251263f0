"""The job that runs the next turn of a place, and the messages that the turn answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.billing.ledger import PaidCall
from agent.journal.steps import TurnKey
from agent.queue.slots import Slot
from shared.credentials.typed import had_typed
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


def next_run(waiting: Sequence[Waiting]) -> list[Waiting]:
    """Return the messages of the next turn: those of an interrupted turn, else the first person's consecutive ones."""
    cut_off = [each for each in waiting if each.turn_id is not None]
    if cut_off:
        return [each for each in cut_off if each.turn_id == cut_off[0].turn_id]
    run: list[Waiting] = []
    for each in waiting:
        first = run[0].message if run else each.message
        if (
            each.message.sender.platform_user_id != first.sender.platform_user_id
            or each.message.adapter != first.adapter
            or (run and (_is_alone(each.message) or _is_alone(first)))
        ):
            break
        run.append(each)
    return run[:MAX_COALESCED]


def _is_alone(message: IncomingMessage) -> bool:
    # A due job is a turn of its own; so is what gets a fixed answer, and what may use credentials.
    return message.due_job is not None or message.credentials is not None or had_typed(message.content)
