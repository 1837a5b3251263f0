"""The state of a running turn: its fixed inputs, its log and its spending."""

from dataclasses import dataclass, field

from agent.confirmations.decisions import DecisionResult
from agent.context.attachments import PendingFile
from agent.context.history import PastStep
from agent.events.announcer import Announcer
from agent.journal.log import TurnLog
from agent.journal.steps import TurnKey
from agent.people.participants import Participants, ResolvedConversation
from agent.people.personas import LoopMode, ResolvedPersona
from agent.people.users import ResolvedUser
from agent.queue.slots import Slot
from agent.tools.calls import Taint
from agent.tools.offer import Offer, Scope
from agent.turn.spend import Spend
from shared.messages import IncomingMessage

# A reservation expires this long after the turn's deadline, so that only turns whose worker died lose theirs.
RESERVATION_SLACK_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Request:
    """The message that a turn answers, stored in the inbox rows `inbox_ids`, and the history before it.

    `taint` is the taint of the turn that delegated this message as a task; empty for a user's own message.
    """

    message: IncomingMessage
    inbox_ids: tuple[int, ...] = ()
    history: tuple[PastStep, ...] = ()
    files: tuple[PendingFile, ...] = ()
    taint: Taint = field(default_factory=Taint)


@dataclass(frozen=True, slots=True)
class Start:
    """How an attempt at a turn began; `began` and `deadline` are seconds on the monotonic clock.

    `failures` is the number of earlier failed attempts. `is_stopped` is True when the user has requested a stop.
    `decision` is the result of the message when it answers a question. `slot` is the worker's slot that the turn holds.
    """

    began: float
    deadline: float
    failures: int = 0
    is_stopped: bool = False
    decision: DecisionResult | None = None
    slot: Slot = field(default_factory=Slot)


@dataclass(frozen=True, slots=True)
class RunningTurn:
    """A turn that is being run; `log` and `spend` grow with its work, the other fields do not change."""

    key: TurnKey
    request: Request
    participants: Participants
    scope: Scope
    offer: Offer
    start: Start
    loop_mode: LoopMode
    announcer: Announcer
    log: TurnLog
    spend: Spend

    @property
    def message(self) -> IncomingMessage:
        """Return the message that the turn answers."""
        return self.request.message

    @property
    def user(self) -> ResolvedUser:
        """Return the user who wrote the message, who is charged for the turn and whose permission applies."""
        return self.participants.user

    @property
    def persona(self) -> ResolvedPersona:
        """Return the persona that answers."""
        return self.participants.persona

    @property
    def conversation(self) -> ResolvedConversation:
        """Return the conversation of the turn."""
        return self.participants.conversation

    @property
    def deadline(self) -> float:
        """Return the time by which the turn must end, in seconds on the monotonic clock."""
        return self.start.deadline
