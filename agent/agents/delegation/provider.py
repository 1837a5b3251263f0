"""The tool provider for agents: one tool, which delegates to a persona of this installation or a remote agent."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from agent.agents.delegation.agents import MODULE, TOOL, AgentTool, build_tool, list_askable, why_not
from agent.agents.delegation.delegate import delegate
from agent.agents.delegation.peers import Peers
from agent.llm.protocols.patterns import DELEGATE
from agent.people.agents import ListedAgent
from agent.people.personas import get_persona
from agent.prompts import prompts
from agent.tools.calls import CallingTurn, PendingCall
from agent.tools.offer import Scope, to_wire_name
from agent.tools.outcomes import Outcome, is_error
from agent.tools.providers import Returned, ToolEvent, ToolProvider
from agent.turn.services import TurnServices
from shared.errors import ToolError
from shared.tools import Tool, ToolContext

NAMES = frozenset({DELEGATE, TOOL, to_wire_name(TOOL)})
MAX_KEPT_TOOLS = 200


class AgentTools(ToolProvider):
    """Offers the delegation tool. `services` returns the services of a turn; it is called when a child turn begins."""

    is_personal = True

    def __init__(self, services: Callable[[], TurnServices], peers: Peers) -> None:
        self._services, self._peers = services, peers
        self._of_nobody = build_tool(())
        self._built: dict[tuple[ListedAgent, ...], AgentTool] = {}

    @property
    def modules(self) -> frozenset[str]:
        """Return the name of the tool's module."""
        return frozenset({MODULE})

    def list(self, scope: Scope) -> Sequence[Tool]:
        """Return the tool for the agents that are available in this scope; empty if there are none."""
        agents = list_askable(scope)
        if not agents:
            return ()
        if agents not in self._built:
            while len(self._built) >= MAX_KEPT_TOOLS:
                self._built.pop(next(iter(self._built)))
            self._built[agents] = build_tool(agents)
        return (self._built[agents],)

    def find(self, name: str) -> Tool | None:
        """Return the tool with this name, without any agents."""
        return self._of_nobody if name == TOOL else None

    def explain_missing(self, scope: Scope, name: str) -> str | None:
        """Return why delegation is refused in this scope, for the names of the delegation tool."""
        return why_not(scope) if name in NAMES else None

    async def find_scope(self, scope: Scope, agent: str) -> Scope:
        """Return the scope of an agent of this installation; raises `ToolError` if the user may not delegate to it."""
        entry = next((candidate for candidate in scope.agents if candidate.name == agent), None)
        if entry is None or entry.persona_id is None or entry.requires > scope.user.permission:
            raise ToolError(prompts().delegation.switched_off.format(agent=agent))
        services = self._services()
        async with services.database.statement() as session:
            persona = await get_persona(session, entry.persona_id, scope.user.permission, settings=services.settings)
        return replace(scope, persona=persona, hops=(*scope.hops, agent))

    async def call(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext, turn: CallingTurn | None
    ) -> Returned:
        """Run the task with the agent; if an earlier attempt has finished this call, return that result."""
        if turn is None:
            raise ToolError(prompts().delegation.not_here)
        agent, task = str(arguments["agent"]), str(arguments["task"])
        return await delegate(self._services(), self._peers, turn=turn, call_id=context.call_id, agent=agent, task=task)

    def call_events(self, call: PendingCall) -> Sequence[ToolEvent]:
        """Return the `delegation_request` event of this call."""
        if call.name != TOOL:
            return ()
        payload = {"agent": call.arguments.get("agent"), "task": call.arguments.get("task")}
        return (("delegation_request", {"id": call.id, **payload}),)

    def result_events(self, call: PendingCall, outcome: Outcome) -> Sequence[ToolEvent]:
        """Return the `delegation_response` event: the agent's result or error, its iterations and its usage."""
        if call.name != TOOL:
            return ()
        work = outcome.work
        came_to = {"error": json.loads(outcome.content).get("message")} if is_error(outcome) else {"result": work.text}
        payload = {"id": call.id, "agent": str(call.arguments.get("agent", "")), "iterations": work.model_calls}
        return (("delegation_response", {**payload, "usage": asdict(work.usage), **came_to}),)
