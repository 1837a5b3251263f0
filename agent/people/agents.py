"""The agents that an admin has listed: a turn may delegate tasks to them, if its user may."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.permissions import Permission

# Part of a statement that every turn runs anyway; NULL when there are none.
LISTED = """(
    SELECT jsonb_agg(jsonb_build_array(name, description, required_permission, persona_id) ORDER BY name)
    FROM agents WHERE is_enabled
)"""


@dataclass(frozen=True, slots=True)
class ListedAgent:
    """An agent that a turn may be offered; `persona_id` None: it is reached by its URL."""

    name: str
    description: str
    requires: Permission
    persona_id: int | None


def to_agents(listed: Sequence[Sequence[Any]] | None) -> tuple[ListedAgent, ...]:
    """Return the agents of a row of `LISTED`."""
    return tuple(
        ListedAgent(name, description, requires=Permission.from_label(label), persona_id=persona_id)
        for name, description, label, persona_id in listed or ()
    )
