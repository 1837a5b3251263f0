"""The agents that a turn may ask, and the tool that asks one.

A row of `agents` is a persona of this house or an agent at a url. Who may ask it: whoever has its permission, where the
persona allows the module `agents`, and never one who was asked on the way here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.llm.protocols.patterns import DELEGATE
from agent.people.agents import ListedAgent
from agent.people.hops import MAX_DEPTH
from agent.prompts import prompts
from agent.tools.offer import Scope
from shared.errors import ToolError
from shared.permissions import Permission
from shared.tools import Tool, ToolContext

MODULE = "agents"
TOOL = f"{MODULE}.{DELEGATE}"
# The turn's deadline ends it sooner, and the agent says why.
TIMEOUT_SECONDS = 7200.0


@dataclass(frozen=True, eq=False)
class AgentTool(Tool):
    """The tool that asks one of these agents; their provider does the asking."""

    resumable = True
    spends_budget = True
    owns_bare_name = True

    agents: tuple[ListedAgent, ...] = ()

    def acts_on(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call hands its task to another house; an agent of this one is watched at its own calls."""
        return any(each.name == arguments.get("agent") and each.persona_id is None for each in self.agents)


def build_tool(agents: Sequence[ListedAgent]) -> AgentTool:
    """Return the tool that asks one of these agents; the same agents give the same text to the byte."""

    async def delegate(_context: ToolContext, agent: str, task: str) -> Any:
        raise ToolError(prompts().delegation.not_here)

    listed = "\n".join(f"- {each.name}: {' '.join(each.description.split())}" for each in agents)
    delegate.__doc__ = prompts().delegation.tool.format(agents=listed)
    return AgentTool(delegate, Permission.GUEST, timeout_seconds=TIMEOUT_SECONDS, module=MODULE, agents=tuple(agents))


def list_askable(scope: Scope) -> tuple[ListedAgent, ...]:
    """Return the agents that may be asked in this scope, by name."""
    modules = scope.persona.allowed_modules
    # Where nobody has written a persona, the rows of `agents` alone say who may ask whom.
    is_allowed = modules is None or MODULE in modules or scope.persona.id is None
    if not scope.agents or not is_allowed or len(scope.hops) >= MAX_DEPTH:
        return ()
    return tuple(
        each for each in scope.agents if each.requires <= scope.user.permission and not _is_on_way(scope, each)
    )


def find_askable(scope: Scope, name: str) -> ListedAgent:
    """Return the agent with this name; raises `ToolError` that says why it may not be asked, and who may."""
    askable = list_askable(scope)
    for each in askable:
        if each.name == name:
            return each
    known = next((each for each in scope.agents if each.name == name), None)
    raise ToolError(
        why_not(scope, known) or prompts().delegation.unknown.format(agent=name[:64]),
        agents=[each.name for each in askable],
    )


def why_not(scope: Scope, agent: ListedAgent | None = None) -> str | None:
    """Return what keeps a task from being handed on, for the model; None when there simply is no such agent here."""
    way = " → ".join(scope.hops)
    if len(scope.hops) >= MAX_DEPTH:
        return prompts().delegation.too_deep.format(hops=way, most=MAX_DEPTH)
    if agent is not None and _is_on_way(scope, agent):
        return prompts().delegation.cycle.format(agent=agent.name, hops=way or scope.persona.name)
    return None


def _is_on_way(scope: Scope, agent: ListedAgent) -> bool:
    is_itself = agent.persona_id is not None and agent.persona_id == scope.persona.id
    return is_itself or agent.name in scope.hops
