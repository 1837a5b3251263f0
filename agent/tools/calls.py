"""A tool call before it runs: what the model requested, in which scope, and the turn that makes the call."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any

from agent.journal.steps import Step, TurnKey
from agent.people.participants import ResolvedConversation, ResolvedUser
from agent.tools.offer import Offer, Scope
from shared.messages import Author, IncomingMessage
from shared.tools import Tool


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that has not run yet; `id` is the same in every attempt at its turn.

    `confirmation` is set for a call that the user was asked about, as in `ToolUse`. `agreed_to` is what the approved
    question says of this call, set once the approval has been consumed. `author` says who may have written
    the arguments: a stranger, when the model had read a stranger's text and the asker did not say them. The question
    of a tool that asks itself shows them, too, if `shows_arguments`.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    scope: Scope
    offer: Offer
    seq: int = 0
    confirmation: dict[str, Any] | None = None
    agreed_to: str | None = None
    author: Author = "person"
    shows_arguments: bool = False

    @property
    def tool(self) -> Tool | None:
        """Return the offered tool with this name, None when there is none."""
        return self.offer.find(self.name)


def to_pending(step: Step, scope: Scope, offer: Offer) -> PendingCall:
    """Convert a recorded call to a pending one."""
    return PendingCall(
        id=step.tool.call_id,
        name=step.tool.name,
        arguments=step.value,
        scope=scope,
        offer=offer,
        seq=step.seq,
        confirmation=step.tool.confirmation,
    )


class Taint(Flag):
    """Which risky content a prompt holds: text that somebody other than the user wrote, and private data."""

    NONE = 0
    UNTRUSTED = auto()
    PRIVATE = auto()
    WHOLE = UNTRUSTED | PRIVATE


@dataclass(frozen=True, slots=True)
class CallingTurn:
    """The parts of the calling turn that tool providers may use.

    `deadline` is in seconds on the monotonic clock. `numbers` yields the positions of model calls in a scripted
    conversation, None when they are not numbered. `find_taint` computes the taint of the turn's prompt; `list_said`
    returns what the person has typed.
    """

    key: TurnKey
    message: IncomingMessage
    user: ResolvedUser
    conversation: ResolvedConversation
    scope: Scope
    deadline: float
    numbers: Iterator[int] | None
    find_taint: Callable[[], Awaitable[Taint]]
    list_said: Callable[[], Sequence[str]]
