"""A running turn: what it was begun with, and what it has come to."""

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
from agent.tools.calls import Taint
from agent.tools.offer import Offer, Scope
from agent.turn.spend import Spend
from shared.messages import IncomingMessage

# A reservation outlives its turn's deadline by this, so that only dead turns lose theirs.
RESERVATION_SLACK_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Request:
    """What a turn is to answer: the message, stored in the rows `inbox_ids`, after this history.

    `taint` is what the message itself was written with in view: a task that another turn hands on.
    """

    message: IncomingMessage
    inbox_ids: tuple[int, ...] = ()
    history: tuple[PastStep, ...] = ()
    files: tuple[PendingFile, ...] = ()
    taint: Taint = field(default_factory=Taint)


@dataclass(frozen=True, slots=True)
class Start:
    """How an attempt at a turn began; `decision` is what came of the message when it answers a question.

    `failures` counts the attempts before that failed; `is_stopped`: the person has asked to stop it.
    """

    began: float
    deadline: float
    failures: int = 0
    is_stopped: bool = False
    decision: DecisionResult | None = None


@dataclass(frozen=True, slots=True)
class RunningTurn:
    """A turn whose work has begun; `log` and `spend` are what it has come to so far."""

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
        """Return the message that it answers."""
        return self.request.message

    @property
    def user(self) -> ResolvedUser:
        """Return who wrote, who pays and whose permission counts."""
        return self.participants.user

    @property
    def persona(self) -> ResolvedPersona:
        """Return who answers."""
        return self.participants.persona

    @property
    def conversation(self) -> ResolvedConversation:
        """Return where it is said."""
        return self.participants.conversation

    @property
    def deadline(self) -> float:
        """Return when it has to end, on the monotonic clock."""
        return self.start.deadline
