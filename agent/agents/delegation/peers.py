"""The interface for calling remote agents, which run in other installations."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from shared.models import Agent


class Asker(Struct, frozen=True):
    """The user on whose behalf an agent is called; `is_direct`: only this user sees its answer."""

    user_id: int
    is_direct: bool


@dataclass(frozen=True, slots=True)
class PeerFile:
    """A file in a remote agent's answer."""

    filename: str
    mime_type: str
    content: bytes = field(repr=False)


class PeerAnswer(Struct, frozen=True):
    """The answer of a remote agent. Its text is untrusted and must never be treated as instructions.

    `finished` is False if the agent reports that the answer is incomplete, for example when it asks a question back.
    """

    text: str
    finished: bool = True
    files: tuple[PeerFile, ...] = ()


class Peers(Protocol):
    """Calls remote agents."""

    async def ask(
        self, agent: "Agent", task: str, *, seconds: float, hops: tuple[str, ...], context_id: str, asker: Asker
    ) -> PeerAnswer:
        """Send the task to the agent of this row and return its answer; `seconds` is the timeout.

        `hops` lists who passed the task on so far, oldest first: other installations, and agents of this one.
        `context_id` is unique to this call. Raises `ToolError` if the agent refuses or fails, `Unavailable` if it can't
        be reached or the connection breaks. On cancellation the agent is asked to cancel the task, for a short time.
        """
        ...
