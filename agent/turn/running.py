"""The state of a running turn: its fixed inputs, its log and its spending; and how running turns are cancelled."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from agent.journal.files import PendingFile
from agent.journal.steps import PastStep, TurnKey, TurnLog
from agent.live.announcer import Announcer
from agent.llm.completions import RejectedCall, RouteAttempt
from agent.people.billing.budget import Admission, AdmissionStatus, PaidCall, Reservation, add_usage
from agent.people.participants import LoopMode, Participants, ResolvedConversation, ResolvedPersona, ResolvedUser
from agent.queue.job import Slot
from agent.tools.calls import Taint
from agent.tools.offer import Offer, Scope
from agent.tools.outcomes import ModelWork
from agent.turn.confirmations.decisions import DecisionResult
from shared.clock import Clock
from shared.errors import Stopped
from shared.memory.recall import WordMatches
from shared.messages import IncomingMessage, Usage

# A turn that is refused again and again must not fill the database.
MOST_DECISIONS = 200
REMEMBERED_STOPS = 200


class Decisions(Struct):
    """Collects decisions of a running turn; the statement that ends the turn stores them."""

    attempts: list[RouteAttempt] = field(default_factory=list)
    admissions: list[dict[str, Any]] = field(default_factory=list)

    def note(self, admission: Admission, tokens: int) -> None:
        """Note the budget's answer to the request for a model call of at most so many tokens."""
        if admission.status is AdmissionStatus.NOT_REQUESTED:
            return
        entry: dict[str, Any] = {"tokens": tokens, "status": admission.status.name.lower()}
        if not admission.is_admitted:
            entry["refusal"] = str(admission.refusal())
        last = self.admissions[-1] if self.admissions else {}
        if entry == {name: last[name] for name in last if name != "times"}:
            # While other turns hold the rest of a budget, the same is asked several times a second.
            last["times"] = last.get("times", 1) + 1
        elif len(self.admissions) < MOST_DECISIONS:
            self.admissions.append(entry)

    def describe(self) -> dict[str, Any]:
        """Return the decisions in the form that `turn_contexts.reasons` stores."""
        routes = [asdict(attempt) for attempt in self.attempts[:MOST_DECISIONS]]
        return {"budget": {"admissions": self.admissions}, "routes": routes}


class Spend(Struct):
    """Counts the model calls of a turn; kept when the turn fails, so that closing it still pays for them.

    `estimate` is an upper estimate of the next model call, in tokens; `price` the highest price of a token in US
    dollars, None when one is unknown. `purpose` is the ledger's label for the calls.
    `usage` includes the calls of agents that the turn has delegated to. `numbers` yields the positions of model calls
    in a scripted conversation, shared with those agents; None when calls are not numbered. `one_call` is held during
    the model call of a tool, because a turn has one reservation. `decisions` are kept with the turn.
    """

    admission: Admission
    estimate: int
    price: float | None = None
    purpose: str = "answer"
    numbers: Iterator[int] | None = None
    unpaid: list[PaidCall] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    one_call: asyncio.Lock = field(default_factory=asyncio.Lock)
    decisions: Decisions = field(default_factory=Decisions)

    def __post_init__(self) -> None:
        """Note the first admission, too."""
        self.decisions.note(self.admission, self.estimate)

    def add(self, calls: Sequence[RejectedCall]) -> None:
        """Set the calls to be paid with the next step, rejected answers included, and add them to the usage."""
        self.unpaid = self.to_paid(calls)
        self.add_usage(self.unpaid)

    def add_usage(self, calls: Sequence[PaidCall]) -> None:
        """Add calls to the total usage; the last one's model becomes the model of the turn."""
        for call in calls:
            self.model = call.model
            self.usage = add_usage(self.usage, call.usage)

    def cost_of(self, tokens: int) -> float | None:
        """Return the most that these tokens cost in US dollars; None when a price is unknown."""
        return None if self.price is None else tokens * self.price

    def to_reservation(self, user_id: int, key: TurnKey, seconds: float) -> Reservation:
        """Return the request to reserve the next model call of this turn, for so many seconds."""
        cost = self.cost_of(self.estimate)
        return Reservation(user_id, key.id, key.attempt, tokens=self.estimate, cost=cost, seconds=seconds)

    def to_paid(self, calls: Sequence[RejectedCall]) -> list[PaidCall]:
        """Convert calls to the ledger's form; they were made with the reservation that is held."""
        reservation_id = self.admission.reservation_id
        return [PaidCall(call.model, call.usage, self.purpose, reservation_id=reservation_id) for call in calls]

    def settle(self, admission: Admission | None) -> None:
        """Mark all calls as paid, and set the admission of the next call if there is one."""
        self.unpaid = []
        if admission is not None:
            self.admit(admission)

    def admit(self, admission: Admission) -> None:
        """Set the budget's admission of the next call."""
        self.admission = admission
        self.decisions.note(admission, self.estimate)

    def release(self) -> None:
        """Mark the reservation for the next call as released."""
        self.admission = replace(self.admission, status=AdmissionStatus.NOT_REQUESTED, reservation_id=None)

    def grow(self, tokens: int) -> None:
        """Raise the estimate of the next model call by this many tokens."""
        self.estimate += tokens

    def add_work(self, work: ModelWork) -> None:
        """Add the usage of the models that a tool call has used."""
        if work.usage != Usage():
            self.usage = add_usage(self.usage, work.usage)

    def number_calls(self, first: int) -> None:
        """Number the following model calls, starting at this position."""
        self.numbers = count(first)

    def next_number(self) -> int:
        """Return the position of the next model call in its conversation; 0 when calls are not numbered."""
        return 0 if self.numbers is None else next(self.numbers)


class Timings(Struct):
    """How many seconds the parts of an attempt at a turn took together."""

    context: float = 0.0
    model: float = 0.0
    tools: float = 0.0

    @contextmanager
    def measure(self, part: Literal["context", "model", "tools"], clock: Clock) -> Iterator[None]:
        """Add the time of the block to a part."""
        began = clock.monotonic()
        try:
            yield
        finally:
            setattr(self, part, getattr(self, part) + clock.monotonic() - began)


# A reservation expires this long after the turn's deadline, so that only turns whose worker died lose theirs.
RESERVATION_SLACK_SECONDS = 30


class Request(Struct, frozen=True):
    """The message that a turn answers, stored in the inbox rows `inbox_ids`, and the history before it.

    `taint` is the taint of the turn that delegated this message as a task; empty for a user's own message. `said` is
    then what the user has typed, because a model has written the task; None for a user's own message.
    """

    message: IncomingMessage
    inbox_ids: tuple[int, ...] = ()
    history: tuple[PastStep, ...] = ()
    files: tuple[PendingFile, ...] = ()
    taint: Taint = Taint.NONE
    said: Sequence[str] | None = None


class Start(Struct, frozen=True):
    """How an attempt at a turn began; `began` and `deadline` are seconds on the monotonic clock.

    `failures` is the number of earlier failed attempts, `last_error` the cause of the last. `is_stopped` is True when
    the user has requested a stop.
    `decision` is the result of the message when it answers a question. `by_words` finds the memories with
    words of the message, beside the statement that begins the turn; None where that had to wait.
    `job_id` names the job that runs it, None for an agent's turn; `slot` is the worker's slot that the turn holds.
    """

    began: float
    deadline: float
    failures: int = 0
    last_error: str | None = None
    is_stopped: bool = False
    decision: DecisionResult | None = None
    by_words: asyncio.Task[WordMatches | None] | None = None
    job_id: int | None = None
    slot: Slot = field(default_factory=Slot)
    timings: Timings = field(default_factory=Timings)


class RunningTurn(Struct, frozen=True):
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
    def waves_left(self) -> int:
        """Return how many waves of tool calls the turn may still run."""
        return self.persona.max_iterations - self.log.waves

    @property
    def deadline(self) -> float:
        """Return the time by which the turn must end, in seconds on the monotonic clock."""
        return self.start.deadline


class Cancellations:
    """Maps the ids of running turns to their asyncio tasks, so that a turn can be cancelled by its id."""

    def __init__(self) -> None:
        self._running: dict[int, asyncio.Task[Any]] = {}
        self._asked: set[int] = set()
        # Stop requests for turns that do not run here yet: still being opened, or run by another process. Bounded.
        self._early: deque[int] = deque(maxlen=REMEMBERED_STOPS)

    def cancel(self, turn_id: int, is_stored: bool) -> None:
        """Cancel this turn if it runs here; otherwise remember the request for when the turn starts here.

        One that is not stored has been erased, or only got its id yet: nobody can have asked to stop it.
        """
        task = self._running.get(turn_id)
        if task is None:
            if is_stored:
                self._early.append(turn_id)
            return
        self._asked.add(turn_id)
        task.cancel()

    @asynccontextmanager
    async def watch(self, turn_id: int) -> AsyncIterator[None]:
        """Make the block cancellable by `cancel`.

        Raises `Stopped` when a stop was requested; any other cancellation propagates as `CancelledError`.
        """
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a turn runs in a task")
        if turn_id in self._early:
            raise Stopped
        self._running[turn_id] = task
        try:
            yield
        except asyncio.CancelledError:
            if turn_id not in self._asked:
                raise
            task.uncancel()
            raise Stopped from None
        finally:
            # An attempt that has lost its turn, with the database, may still be leaving when the next one runs here.
            if self._running.get(turn_id) is task:
                del self._running[turn_id]
            self._asked.discard(turn_id)
