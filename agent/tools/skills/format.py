"""The Agent Skills format: a text `SKILL.md` with YAML front matter, in a folder with the skill's name."""

import re

import yaml
from msgspec import Struct, field

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*$\n?", re.DOTALL | re.MULTILINE)
MAX_NAME_CHARS, MAX_DESCRIPTION_CHARS, MAX_BODY_CHARS = 64, 1024, 200_000
MAX_FRONT_MATTER_CHARS = 16_000


class WrongSkill(Exception):
    """A skill that can't be used, with the reason in words for the operator."""


class SkillText(Struct, frozen=True):
    """A skill; `files` has the paths of the files beside its instructions."""

    name: str
    description: str
    body: str
    files: tuple[str, ...] = field(default=())


def is_name(name: str) -> bool:
    """Return whether the format admits the name; it then also has no part of a path in it."""
    return len(name) <= MAX_NAME_CHARS and NAME.fullmatch(name) is not None


def parse_skill(text: str) -> SkillText:
    """Return the skill of a `SKILL.md`; raises `WrongSkill`. Fields besides name and description are not looked at."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\x00", "")
    match = FRONT_MATTER.match(text)
    if match is None:
        raise WrongSkill("SKILL.md does not begin with YAML between two lines of ---")
    front_matter = match[1]
    if len(front_matter) > MAX_FRONT_MATTER_CHARS:
        raise WrongSkill(f"the YAML has more than {MAX_FRONT_MATTER_CHARS:,} characters")
    try:
        # This loader makes texts, lists and mappings alone: no dates, numbers or objects.
        fields = yaml.load(front_matter, yaml.BaseLoader)  # noqa: S506
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 2}" if error.problem_mark else ""
        raise WrongSkill(f"the YAML can't be read{line}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        raise WrongSkill("the YAML can't be read") from None
    if not isinstance(fields, dict):
        raise WrongSkill("the YAML is no mapping with name and description")
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not is_name(name):
        raise WrongSkill(f"name has to be 1 to {MAX_NAME_CHARS} of a-z, 0-9 and single hyphens between them")
    if not isinstance(description, str) or not 0 < len(description.strip()) <= MAX_DESCRIPTION_CHARS:
        raise WrongSkill(f"description has to have 1 to {MAX_DESCRIPTION_CHARS:,} characters")
    body = text[match.end() :].strip()
    if not 0 < len(body) <= MAX_BODY_CHARS:
        raise WrongSkill(f"the instructions below the second --- have to have 1 to {MAX_BODY_CHARS:,} characters")
    return SkillText(name, " ".join(description.split()), body)
