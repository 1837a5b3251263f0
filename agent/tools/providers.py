"""Whatever offers tools: our modules, MCP servers, other agents. The toolbox treats them all alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent.tools.calls import CallingTurn, PendingCall
from agent.tools.offer import Scope
from agent.tools.outcomes import NO_WORK, ApprovalRequest, ModelWork, Outcome
from shared.errors import ToolError
from shared.tools import Tool, ToolContext

NO_TEXTS: Mapping[str, str] = {}
ToolEvent = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Returned:
    """What a provider's call came to, with the work of models: a value, or an error or a question in its place."""

    value: Any = None
    error: ToolError | None = None
    asked: ApprovalRequest | None = None
    work: ModelWork = NO_WORK


class ToolProvider(Protocol):
    """A source of tools. All but `tools` has a default.

    With `is_personal` its list differs from person to person: `list` itself decides who may use what, and its tools
    stand last, so that what a model's provider has cached of the list before them stays good.
    """

    is_personal: bool = False
    # Another number whenever the tools change, so that an offer is put together once.
    version: int = 0

    @property
    def tools(self) -> Sequence[Tool]:
        """Return the tools as they are now, whoever asks."""
        ...

    @property
    def modules(self) -> frozenset[str]:
        """Return the names that its tools' modules have, or may have."""
        return frozenset(each.module for each in self.tools)

    @property
    def instructions(self) -> Mapping[str, str]:
        """Return what its modules add to the system prompt, by module."""
        return NO_TEXTS

    def list(self, scope: Scope) -> Sequence[Tool]:
        """Return the tools for this scope; unless it `is_personal`, the toolbox leaves out what may not be used.

        Who the person is makes no difference, but their permission, the persona, its agents and the way here do.
        """
        return self.tools

    def find(self, name: str) -> Tool | None:
        """Return the tool that is called `module.tool` now, whoever may use it."""
        return next((each for each in self.tools if each.name == name), None)

    def explain_missing(self, scope: Scope, name: str) -> str | None:
        """Return why a tool of this provider can't be used here; None when the name is none of its own."""
        return None

    async def find_scope(self, scope: Scope, agent: str) -> Scope | None:
        """Return what this agent may use in the scope's place, for a call that it has asked for; None: not ours.

        Raises `ToolError` when it may not be asked.
        """
        return None

    async def call(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext, turn: CallingTurn | None
    ) -> Returned:
        """Run a tool with checked arguments; `turn` is None for a call from outside of any turn."""
        return Returned(await tool.run(context, **arguments))

    def call_events(self, call: PendingCall) -> Sequence[ToolEvent]:
        """Return what readers of the turn are told of a call, beside the call itself."""
        return ()

    def result_events(self, call: PendingCall, outcome: Outcome) -> Sequence[ToolEvent]:
        """Return what readers of the turn are told of an outcome, before the result itself."""
        return ()
