"""The agents that an admin has listed, to which turns can delegate tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.messages import Permission


@dataclass(frozen=True, slots=True)
class ListedAgent:
    """A listed agent; `requires` is the permission to use it. `persona_id` is None for a remote agent with a URL.

    `peers` are the names of the agents that it may ask, None: all. `is_scripted`: it answers by a script of its own.
    """

    name: str
    description: str
    requires: Permission
    persona_id: int | None
    peers: frozenset[str] | None = None
    is_scripted: bool = False


def to_agents(rows: Sequence[Sequence[Any]] | None) -> tuple[ListedAgent, ...]:
    """Return the agents of the column `agents`, which is None if none is enabled."""
    return tuple(
        ListedAgent(
            name,
            description,
            requires=Permission.from_label(label),
            persona_id=persona_id,
            peers=None if peers is None else frozenset(peers),
            is_scripted=is_scripted,
        )
        for name, description, label, persona_id, peers, is_scripted in rows or ()
    )
