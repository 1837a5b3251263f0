"""The agents that a turn may delegate to, and the tool that delegates.

A row of `agents` is either a persona of this installation or a remote agent with a URL. A turn may delegate to it if
its user has the required permission, its persona allows the module `agents`, and the agent is not among the turn's
hops.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.people.hops import MAX_DEPTH
from agent.people.participants import ListedAgent
from agent.prompts import prompts
from agent.tools.offer import Scope
from shared.errors import ToolError
from shared.messages import Permission
from shared.tools import Tool, ToolContext

MODULE = "agents"
# Only an upper bound: the deadline of the child turn expires earlier and gives a better error.
TIMEOUT_SECONDS = 7200.0


class AgentTool(Tool, frozen=True, eq=False):
    """The tool that delegates a task to one of `agents`; `AgentTools` runs its calls."""

    resumable = True
    owns_bare_name = True

    spends_budget: bool = True
    agents: tuple[ListedAgent, ...] = ()

    def acts_on(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether the call needs confirmation in a tainted turn: only if it sends the task to a remote agent.

        A local agent's own tool calls are checked one by one.
        """
        return any(agent.name == arguments.get("agent") and agent.persona_id is None for agent in self.agents)


def build_tool(agents: Sequence[ListedAgent]) -> AgentTool:
    """Return the tool that delegates to these agents; its description is byte-identical for the same agents."""

    async def delegate(_context: ToolContext, agent: str, task: str) -> Any:
        raise ToolError(prompts().delegation.not_here)

    listing = "\n".join(f"- {agent.name}: {' '.join(agent.description.split())}" for agent in agents)
    delegate.__doc__ = prompts().delegation.tool.format(agents=listing)
    return AgentTool(delegate, Permission.GUEST, timeout_seconds=TIMEOUT_SECONDS, module=MODULE, agents=tuple(agents))


def list_askable(scope: Scope) -> tuple[ListedAgent, ...]:
    """Return the agents that a turn with this scope may delegate to, in the order of their names."""
    modules = scope.persona.allowed_modules
    # The built-in persona (id None) cannot list modules: there, only the rows of `agents` restrict delegation.
    is_allowed = modules is None or MODULE in modules or scope.persona.id is None
    if not scope.agents or not is_allowed or len(scope.hops) >= MAX_DEPTH:
        return ()
    asker = find_asker(scope)
    peers = asker.peers if asker is not None else None
    return tuple(
        agent
        for agent in scope.agents
        if agent.requires <= scope.user.permission and not _has_passed(scope, agent)
        if peers is None or agent.name in peers
    )


def find_asker(scope: Scope) -> ListedAgent | None:
    """Return the agent whose turn this is; None for the turn of a message."""
    names = scope.hops[-1:]
    return next((agent for agent in scope.agents if agent.name in names and agent.persona_id == scope.persona.id), None)


def find_askable(scope: Scope, name: str) -> ListedAgent:
    """Return the agent with this name.

    Raises `ToolError` if the turn may not delegate to it, with the reason and the names of the allowed agents.
    """
    askable = list_askable(scope)
    for candidate in askable:
        if candidate.name == name:
            return candidate
    agent = next((agent for agent in scope.agents if agent.name == name), None)
    raise ToolError(
        why_not(scope, agent) or prompts().delegation.unknown.format(agent=name[:64]),
        agents=[agent.name for agent in askable],
    )


def why_not(scope: Scope, agent: ListedAgent | None = None) -> str | None:
    """Return why delegation is refused (too many hops, or a cycle), as text for the model; None if neither applies."""
    path = " → ".join(scope.hops)
    if len(scope.hops) >= MAX_DEPTH:
        return prompts().delegation.too_deep.format(hops=path, most=MAX_DEPTH)
    if agent is not None and _has_passed(scope, agent):
        return prompts().delegation.cycle.format(agent=agent.name, hops=path or scope.persona.name)
    return None


def _has_passed(scope: Scope, agent: ListedAgent) -> bool:
    is_itself = agent.persona_id is not None and agent.persona_id == scope.persona.id
    return is_itself or agent.name in scope.hops
