"""The tool provider for skills: lists those of the persona in the prompt, and two tools that load them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from agent.people.participants import ListedSkill
from agent.prompts import prompts
from agent.tools.calls import CallingTurn
from agent.tools.offer import Scope
from agent.tools.outcomes import Returned
from agent.tools.providers import NO_TEXTS, ToolProvider
from agent.tools.skills.folder import INSTRUCTIONS, SkillFolder
from agent.tools.skills.format import SkillText, WrongSkill
from shared.db.statements import load_statements
from shared.documents.pages import to_page
from shared.errors import ToolError
from shared.messages import Permission
from shared.text import cut
from shared.tools import Tool, ToolContext

statements = load_statements(__file__)

MODULE = "skills"
# Of all descriptions together; each has the same room when they have more.
MAX_LISTING_CHARS = 8000
NOT_HERE = "Skills can be loaded in a turn only."

Found = TypeVar("Found")


async def load_skill(_context: ToolContext, name: str, offset: int = 0) -> Any:
    """Load a skill's instructions; lists its files."""
    raise ToolError(NOT_HERE)


async def read_skill_file(_context: ToolContext, name: str, path: str, offset: int = 0) -> Any:
    """Read a file of a skill."""
    raise ToolError(NOT_HERE)


LOAD, READ = (
    Tool(run, Permission.GUEST, read_only=True, repeatable=True, module=MODULE, words=words)
    for run, words in (
        (load_skill, ("Reading the skill {name}", "Read the skill {name}")),
        (read_skill_file, ("Reading {path} of the skill {name}", "Read {path} of the skill {name}")),
    )
)


class SkillTools(ToolProvider):
    """Offers the two tools where the persona lists skills that there are; `folder` is None without `SKILLS_PATH`.

    A persona's list is the permission: its `allowed_modules` need not name the module.
    """

    is_personal = True
    tools = MappingProxyType({tool.name: tool for tool in (LOAD, READ)})

    def __init__(self, folder: SkillFolder | None) -> None:
        self._folder = folder
        # Files may change at any time; rows of the table come with the persona.
        self.variant = None if folder is None else self._list_skills

    def _list_skills(self, scope: Scope) -> tuple[ListedSkill, ...]:
        # Those that the persona lists and that there are, sorted by name; a row precedes a folder.
        persona = scope.persona
        if not persona.skills.names:
            return ()
        skills = {skill.name: skill for skill in persona.skills.stored}
        for name in persona.skills.names:
            if name not in skills and self._folder is not None and (text := self._folder.find(name)) is not None:
                skills[name] = ListedSkill(text.name, text.description)
        return tuple(skills[name] for name in sorted(skills))

    def describe(self, scope: Scope) -> Mapping[str, str]:
        """Return the list of names and descriptions, byte-identical for the same skills."""
        skills = self._list_skills(scope)
        if not skills:
            return NO_TEXTS
        room = max(60, MAX_LISTING_CHARS // len(skills))
        lines = [f"- {skill.name}: {cut(' '.join(skill.description.split()), room)}" for skill in skills]
        return {MODULE: "\n".join([prompts().skills.heading, *lines])}

    def list(self, scope: Scope) -> Sequence[Tool]:
        """Return both tools if the persona has a skill."""
        return (LOAD, READ) if self._list_skills(scope) else ()

    async def call(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext, turn: CallingTurn | None
    ) -> Returned:
        """Return a part of the instructions or of a file; raises `ToolError` with what would be valid."""
        if turn is None:
            raise ToolError(NOT_HERE)
        name, offset = str(arguments["name"]), int(arguments["offset"])
        available = [skill.name for skill in self._list_skills(turn.scope)]
        if name not in available:
            raise ToolError(f"There is no skill {name[:64]!r} here.", available_skills=available)
        # Leaves a quarter of the limit for the escapes of JSON.
        size = max(100, context.app_settings.tool_result_max_chars * 3 // 4)
        async with context.transaction() as session:
            row = (await session.execute(statements.find_skill, {"name": name})).one_or_none()
        if row is not None:
            skill = SkillText(name, row.description, row.body, files=tuple(sorted(row.files)))
        else:
            skill = await self._in_folder(SkillFolder.read, name)
        if tool.name == LOAD.name:
            return Returned({"name": name, **to_page(skill.body, offset, size), "files": list(skill.files)})
        path = str(arguments["path"])
        if path not in (*skill.files, INSTRUCTIONS):
            raise ToolError(f"The skill {name} has no file {path[:200]!r}.", files=list(skill.files))
        if path == INSTRUCTIONS:
            text = skill.body
        else:
            text = row.files[path] if row is not None else await self._in_folder(SkillFolder.read_file, name, path)
        return Returned({"name": name, "path": path, **to_page(text, offset, size)})

    async def _in_folder(self, run: Callable[..., Found], *arguments: str) -> Found:
        if self._folder is None:
            raise ToolError("This skill has just been removed.")
        try:
            return await asyncio.to_thread(partial(run, self._folder, *arguments))
        except WrongSkill as error:
            raise ToolError(f"This skill can't be used: {error}.") from None
