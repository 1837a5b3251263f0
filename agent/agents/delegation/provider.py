"""The tool provider for agents: one tool, which delegates to a persona of this installation or a remote agent."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent.agents.delegation.agents import AgentTool, build_tool, list_askable, why_not
from agent.agents.delegation.delegate import delegate
from agent.agents.delegation.peers import Peers
from agent.people.participants import ListedAgent
from agent.prompts import prompts
from agent.tools.calls import CallingTurn, PendingCall
from agent.tools.offer import DELEGATE, Scope
from agent.tools.outcomes import Outcome, Returned, is_error
from agent.tools.providers import NO_TEXTS, ToolEvent, ToolProvider
from agent.turn.services import TurnServices
from shared.errors import ToolError
from shared.messages import to_fields
from shared.tools import Tool, ToolContext

MAX_KEPT_TOOLS = 200


class AgentTools(ToolProvider):
    """Offers the delegation tool. `services` returns the services of a turn; it is called when a child turn begins."""

    is_personal = True

    def __init__(self, services: Callable[[], TurnServices], peers: Peers) -> None:
        self._services, self._peers = services, peers
        # Without any agents.
        self.tools = {DELEGATE: build_tool(())}
        self._built: dict[tuple[ListedAgent, ...], AgentTool] = {}

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

    def list_missing(self, scope: Scope) -> Mapping[str, str]:
        """Return why delegation is refused in this scope, if it is."""
        reason = why_not(scope)
        return NO_TEXTS if reason is None else {DELEGATE: reason}

    async def call(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext, turn: CallingTurn | None
    ) -> Returned:
        """Run the task with the agent; if an earlier attempt has finished this call, return that result."""
        if turn is None:
            raise ToolError(prompts().delegation.not_here)
        agent, task = str(arguments["agent"]), str(arguments["task"])
        return await delegate(self._services(), self._peers, turn=turn, call_id=context.call_id, agent=agent, task=task)

    def list_events(self, call: PendingCall, outcome: Outcome | None) -> Sequence[ToolEvent]:
        """Return `delegation_request` for a call; `delegation_response` has the result or error, and what it took."""
        if call.name != DELEGATE:
            return ()
        if outcome is None:
            task = {"agent": call.arguments.get("agent"), "task": call.arguments.get("task")}
            return (("delegation_request", {"id": call.id, **task}),)
        work = outcome.work
        came_to = {"error": json.loads(outcome.content).get("message")} if is_error(outcome) else {"result": work.text}
        payload = {"id": call.id, "agent": str(call.arguments.get("agent", "")), "iterations": work.model_calls}
        return (("delegation_response", {**payload, "usage": to_fields(work.usage), **came_to}),)
