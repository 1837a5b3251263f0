"""The agents that an admin has listed: whom a turn may hand a task to, if the person may."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.permissions import Permission

if TYPE_CHECKING:
    pass


# Part of a statement that every turn makes anyway: NULL where there are none.
LISTED = """(
    SELECT jsonb_agg(jsonb_build_array(name, description, required_permission, persona_id) ORDER BY name)
    FROM agents WHERE is_enabled
)"""


@dataclass(frozen=True, slots=True)
class ListedAgent:
    """An agent as a turn may be offered it; `persona_id` None: it is at a url."""

    name: str
    description: str
    requires: Permission
    persona_id: int | None


def to_agents(listed: Sequence[Sequence[Any]] | None) -> tuple[ListedAgent, ...]:
    """Return what `LISTED` gave."""
    return tuple(
        ListedAgent(name, description, Permission.from_label(label), persona_id)
        for name, description, label, persona_id in listed or ()
    )
