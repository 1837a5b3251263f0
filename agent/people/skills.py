"""The skills in the table that a persona lists."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Label, literal_column
from sqlalchemy.dialects.postgresql import JSONB

# A column of the statement that reads the persona anyway; NULL if the persona lists none that are in the table.
STORED: Label[Any] = literal_column(
    """CASE WHEN personas.skills IS NOT NULL THEN (
    SELECT jsonb_agg(jsonb_build_array(stored.name, stored.description) ORDER BY stored.name) FROM skills AS stored
    WHERE stored.is_enabled AND jsonb_exists(personas.skills, stored.name)
) END""",
    JSONB,
).label("stored_skills")


@dataclass(frozen=True, slots=True)
class ListedSkill:
    """A skill as the prompt shows it."""

    name: str
    description: str


def to_skills(stored: Sequence[Sequence[str]] | None) -> tuple[ListedSkill, ...]:
    """Return the skills of a value of `STORED`."""
    return tuple(ListedSkill(name, description) for name, description in stored or ())
