"""A tool call on its way: what the model asked for, in which scope, and the turn that makes it."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from agent.journal.steps import Step, TurnKey
from agent.people.participants import ResolvedConversation
from agent.people.users import ResolvedUser
from agent.tools.offer import Offer, Scope
from shared.messages import IncomingMessage
from shared.tools import Tool


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that has not run yet; `id` is the same in every attempt at its turn.

    `confirmation` is the answered question that it was made for, if it was: `{"id": …, "approved": …}`. `agreed_to` is
    the question that the person has said yes to, once that yes is spent on this call.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    scope: Scope
    offer: Offer
    seq: int = 0
    confirmation: dict[str, Any] | None = None
    agreed_to: str | None = None

    @property
    def tool(self) -> Tool | None:
        """Return the tool that the turn is offered under this name."""
        return self.offer.find(self.name)


def to_pending(step: Step, scope: Scope, offer: Offer) -> PendingCall:
    """Return a recorded call as one that is to run."""
    return PendingCall(
        id=str(step.tool_call_id),
        name=str(step.tool_name),
        arguments=step.value,
        scope=scope,
        offer=offer,
        seq=step.seq,
        confirmation=step.confirmation,
    )


@dataclass(frozen=True, slots=True)
class Taint:
    """What a prompt may hold: text that somebody else wrote, and data that not everybody may know."""

    untrusted: bool = False
    private: bool = False

    @property
    def is_whole(self) -> bool:
        """Return whether both came together."""
        return self.untrusted and self.private

    def __or__(self, other: "Taint") -> "Taint":
        return Taint(self.untrusted or other.untrusted, self.private or other.private)


@dataclass(frozen=True, slots=True)
class CallingTurn:
    """The turn that makes a call, as far as a provider may need it.

    `numbers` gives the next positions of model calls in a scripted conversation; `find_taint` says what the model had
    been shown when it wrote the call.
    """

    key: TurnKey
    message: IncomingMessage
    user: ResolvedUser
    conversation: ResolvedConversation
    scope: Scope
    deadline: float
    numbers: Iterator[int] | None
    find_taint: Callable[[], Awaitable[Taint]]
