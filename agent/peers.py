"""Agents of other houses: what asks one of them."""

from dataclasses import dataclass
from typing import Protocol

from shared.errors import Unavailable
from shared.models import Agent


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """What an agent of another house said. It is foreign text: material, never instructions.

    `finished` False: it says itself that this is not all, such as a question that it asks back.
    """

    text: str
    finished: bool = True


class Peers(Protocol):
    """What reaches the agents at a url."""

    async def ask(
        self, agent: Agent, task: str, *, seconds: float, trail: tuple[str, ...], context_id: str
    ) -> PeerAnswer:
        """Have the agent of this row do the task within so many seconds.

        `trail` names the agents that handed the task on so far, the first one first; `context_id` is this call's and no
        other's. Raises `ToolError` when the agent says no, `Unavailable` when it can't be reached or breaks off. When
        it is cancelled it tells the agent to stop, if that can be told quickly.
        """
        ...


class NoPeers:
    """A house that reaches no other one."""

    async def ask(
        self, agent: Agent, task: str, *, seconds: float, trail: tuple[str, ...], context_id: str
    ) -> PeerAnswer:
        """Raise `Unavailable`."""
        raise Unavailable(f"Agents at a url can't be reached from here, so {agent.name} can't either.")
