"""The tools that are offered to a turn, and the scope (user, persona and place) that decides which they are."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from agent.llm.completions import count_prompt
from agent.people.module_rules import ModuleRules
from agent.people.participants import ListedAgent, ResolvedPersona, Rights, built_in_modules
from shared.messages import Caller, Place
from shared.settings import Settings
from shared.text import clean
from shared.tools import Tool

# Models that name a server with each tool call the modules' tools so, as tools that are on no server.
LOCAL = re.compile(r"^local(?:__|\.)")
# The tool that gives a task to an agent.
DELEGATE = "agents.delegate"


class Scope(Struct, frozen=True):
    """The user, persona and place that decide which tools may be used, and what admins have said of `modules`.

    `agents` are the agents that an admin has listed; `hops` are the names of the agents that delegated the task to this
    turn, one after the other. `can_ask` is False when nobody can be asked for approval, because a program writes on
    behalf of the user. `is_anonymous`: a program wrote without naming a person, so `user` is the account of many.
    """

    user: Caller
    persona: ResolvedPersona
    place: Place
    modules: ModuleRules
    agents: tuple[ListedAgent, ...] = ()
    hops: tuple[str, ...] = ()
    can_ask: bool = True
    is_anonymous: bool = False


def with_rights(scope: Scope, rights: Rights, settings: Settings) -> Scope:
    """Return the scope with the rights of this moment. They may shrink while a turn runs; a turn never gains any."""
    permission, persona = min(scope.user.permission, rights.permission), scope.persona
    if rights.has_persona:
        modules = None if rights.allowed_modules is None else frozenset(rights.allowed_modules)
        persona = replace(persona, allowed_modules=modules)
    elif persona.id is None:
        persona = replace(persona, allowed_modules=built_in_modules(permission, settings))
    user = replace(scope.user, permission=permission)
    return replace(scope, user=user, persona=persona, modules=rights.modules)


class Offer(Struct, frozen=True, dict=True):
    """The tools of one turn, in the same order for every model call.

    `instructions` is the text that their modules add to the system prompt. `left_out` may be used too, but did not fit:
    the model finds them by search. `removed` has the tools that may not be used here, by the rule that forbids it.
    """

    tools: tuple[Tool, ...]
    instructions: str = ""
    left_out: tuple[Tool, ...] = ()
    removed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def schemas(self) -> tuple[dict[str, Any], ...]:
        """Return the tools in the OpenAI function format."""
        return tuple(tool.schema for tool in self.tools)

    def full_name(self, name: str) -> str:
        """Return `module.tool` for a name that a model wrote; an unknown name is cleaned and cut to 64 characters."""
        tool = self.find(name)
        return tool.name if tool else clean(name)[:64]

    @cached_property
    def reasons(self) -> dict[str, Any]:
        """Return which tools are offered, found by search and removed, by name, as it is kept with the turn."""
        return {
            "offered": [tool.name for tool in self.tools],
            "found_by_search": [tool.name for tool in self.left_out],
            "removed": {rule: list(names) for rule, names in self.removed.items()},
        }

    @cached_property
    def tokens(self) -> int:
        """Return an upper estimate of the tokens of the tool list in a prompt."""
        return count_prompt(self.schemas)

    def find(self, name: str) -> Tool | None:
        """Return the tool with this name: `module__tool`, `module.tool`, or a bare name that only one tool has.

        `local__` in front of one of these names is ignored, unless there is a module or server `local`. A tool with
        `owns_bare_name` takes precedence over other tools with the same bare name.
        """
        return self._find(name) or self._find(LOCAL.sub("", name))

    def list_meant(self, name: str) -> list[Tool]:
        """Return the tools that a bare name may mean; several when it does not decide between them."""
        bare = [tool for tool in (*self.tools, *self.left_out) if tool.run.__name__ == LOCAL.sub("", name)]
        return [tool for tool in bare if tool.owns_bare_name] or bare

    @cached_property
    def _tools_by_name(self) -> Mapping[str, Tool]:
        # Of those with one name the first counts.
        tools = reversed((*self.tools, *self.left_out))
        return {name: tool for tool in tools for name in (tool.wire_name, tool.name)}

    def _find(self, name: str) -> Tool | None:
        # Called a dozen times for each call of a turn: most names are whole, and none of them goes through all tools.
        if (tool := self._tools_by_name.get(name)) is not None:
            return tool
        matches = self.list_meant(name)
        return matches[0] if len(matches) == 1 else None


def to_wire_name(name: str) -> str:
    """Convert any name to the characters and length that all model providers accept for a tool."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name.replace(".", "__"))[:64] or "_"
