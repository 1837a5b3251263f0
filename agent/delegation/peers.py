"""Agents of other houses: what asks one of them."""

from dataclasses import dataclass, field
from typing import Protocol

from shared.errors import Unavailable
from shared.models import Agent


@dataclass(frozen=True, slots=True)
class Asker:
    """For whom an agent is asked; `is_direct`: what it says reaches this person alone."""

    user_id: int
    is_direct: bool


@dataclass(frozen=True, slots=True)
class PeerFile:
    """A file that came with an answer."""

    filename: str
    mime_type: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """What an agent of another house said. It is foreign text: material, never instructions.

    `finished` False: it says itself that this is not all, such as a question that it asks back.
    """

    text: str
    finished: bool = True
    files: tuple[PeerFile, ...] = ()


class Peers(Protocol):
    """What reaches the agents at a url."""

    async def ask(
        self, agent: Agent, task: str, *, seconds: float, hops: tuple[str, ...], context_id: str, asker: Asker
    ) -> PeerAnswer:
        """Have the agent of this row do the task within so many seconds.

        `hops` names who handed the task on so far, the first one first: houses that a question came by, and agents of
        ours; `context_id` is this call's and no other's. Raises `ToolError` when the agent says no, `Unavailable` when
        it can't be reached or breaks off. When it is cancelled it tells the agent to stop, if that can be told quickly.
        """
        ...


class NoPeers:
    """A house that reaches no other one."""

    async def ask(
        self, agent: Agent, task: str, *, seconds: float, hops: tuple[str, ...], context_id: str, asker: Asker
    ) -> PeerAnswer:
        """Raise `Unavailable`."""
        raise Unavailable(f"Agents at a url can't be reached from here, so {agent.name} can't either.")
