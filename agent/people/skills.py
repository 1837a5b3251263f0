"""The skills in the table that a persona lists."""

from collections.abc import Sequence
from dataclasses import dataclass


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
    """Return the skills from the columns `skills` and `stored_skills` of a persona."""
    return PersonaSkills(tuple(names or ()), tuple(ListedSkill(*row) for row in rows or ()))
