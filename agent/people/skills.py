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


@dataclass(frozen=True, slots=True)
class PersonaSkills:
    """The skills of a persona: the names that it lists, and those of them that are rows of the table."""

    names: tuple[str, ...] = ()
    stored: tuple[ListedSkill, ...] = ()


NO_SKILLS = PersonaSkills()


def to_skills(names: Sequence[str] | None, rows: Sequence[Sequence[str]] | None) -> PersonaSkills:
    """Return the skills from the column `skills` and a value of `STORED`."""
    return PersonaSkills(tuple(names or ()), tuple(ListedSkill(*row) for row in rows or ()))
