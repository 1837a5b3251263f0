"""The tools that one turn is offered, and what decides it: who asks, under which persona, where."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agent.llm.tokens import count_prompt
from agent.people.agents import ListedAgent
from agent.people.personas import ResolvedPersona
from shared.messages import Place
from shared.text import clean
from shared.tools import Caller, Tool


@dataclass(frozen=True, slots=True)
class Scope:
    """Who asks, under which persona, where: what decides which tools may be used.

    `agents` are those that an admin has listed, `hops` the names of those who handed the task on to this turn. With
    `can_ask` False nobody can be asked for a yes: another program speaks for the person.
    """

    user: Caller
    persona: ResolvedPersona
    place: Place
    agents: tuple[ListedAgent, ...] = ()
    hops: tuple[str, ...] = ()
    can_ask: bool = True


@dataclass(frozen=True)
class Offer:
    """The tools of one turn, in an order that does not change from call to call.

    `instructions` is what their modules add to the system prompt.
    """

    tools: tuple[Tool, ...]
    instructions: str = ""

    @cached_property
    def schemas(self) -> tuple[dict[str, Any], ...]:
        """Return the tools in the OpenAI function format."""
        return tuple(each.schema for each in self.tools)

    def full_name(self, name: str) -> str:
        """Return `module.tool` for what a model wrote; an unknown name stays as it is, cut to a bearable length."""
        tool = self.find(name)
        return tool.name if tool else clean(name)[:64]

    @cached_property
    def tokens(self) -> int:
        """Return an upper estimate of what the tool list costs in a prompt."""
        return count_prompt(self.schemas)

    def find(self, name: str) -> Tool | None:
        """Return the tool with this name: `module__tool`, `module.tool`, or a bare name that only one tool has.

        A tool with `owns_bare_name` has its bare name alone, whatever others are called.
        """
        for each in self.tools:
            if name in (each.wire_name, each.name):
                return each
        bare = [each for each in self.tools if each.run.__name__ == name]
        bare = [each for each in bare if each.owns_bare_name] or bare
        return bare[0] if len(bare) == 1 else None


def to_wire_name(name: str) -> str:
    """Return a tool's name in the characters that all providers take, also for one that a model made up."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name.replace(".", "__"))[:64] or "_"
