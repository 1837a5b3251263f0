"""The interface of tool providers: modules, MCP servers and other agents implement it, and the toolbox uses it."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent.tools.calls import CallingTurn, PendingCall
from agent.tools.offer import Scope
from agent.tools.outcomes import NO_WORK, ApprovalRequest, ModelWork, Outcome
from shared.errors import ToolError
from shared.hooks import ModuleRoute, ModuleTick
from shared.tools import Tool, ToolContext

NO_TEXTS: Mapping[str, str] = {}
ToolEvent = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Returned:
    """The return value of a provider's call: a value, an error or a request for approval, and the work of models."""

    value: Any = None
    error: ToolError | None = None
    asked: ApprovalRequest | None = None
    work: ModelWork = NO_WORK


class ToolProvider(Protocol):
    """A source of tools; every member has a default.

    With `is_personal` the tools differ between users: `list` itself decides who may use which, and they come last in
    the offer, so that the cached prefix of the prompt before them stays valid.
    """

    is_personal: bool = False
    # Tools of a searchable provider are left out of an offer that has grown too large, and found by search.
    is_searchable: bool = False
    # The tools that lack something in the settings, and what.
    off: Mapping[str, str] = NO_TEXTS
    # Changes whenever the tools change.
    version: int = 0
    # Whether tools or instructions also depend on what `variant` returns.
    varies: bool = False
    # What modules answer over HTTP, and what they do in the background.
    routes: Sequence[ModuleRoute] = ()
    ticks: Sequence[ModuleTick] = ()

    @property
    def tools(self) -> Sequence[Tool]:
        """Return all current tools, without checking permissions; personal ones are in `list` alone."""
        return ()

    @property
    def modules(self) -> frozenset[str]:
        """Return the module names that its tools use or may use."""
        return frozenset(tool.module for tool in self.tools)

    @property
    def instructions(self) -> Mapping[str, str]:
        """Return the text that each of its modules adds to the system prompt, by module."""
        return NO_TEXTS

    def variant(self, scope: Scope) -> Hashable:
        """Return what offers are cached by besides the version, the rights and the persona; asked if it `varies`."""
        return None

    def describe(self, scope: Scope) -> Mapping[str, str]:
        """Return the instructions for this scope, by module."""
        return self.instructions

    def list(self, scope: Scope) -> Sequence[Tool]:
        """Return the tools for this scope; unless `is_personal`, the toolbox removes those that are not permitted.

        The result may depend on the user's permission, the persona, its agents and the hops of the scope, but not on
        the user's identity, because offers are cached by these values.
        """
        return self.tools

    def find(self, name: str) -> Tool | None:
        """Return the current tool with the full name `module.tool`, if there is one; does not check permissions."""
        return next((tool for tool in self.tools if tool.name == name), None)

    async def try_again(self) -> None:
        """Look again for what was missing so far; a worker calls this from time to time."""
        return

    def explain_missing(self, scope: Scope, name: str) -> str | None:
        """Return why this tool cannot be used in this scope; None when the name does not belong to this provider."""
        return None

    async def find_scope(self, scope: Scope, agent: str) -> Scope | None:
        """Return the scope of an agent, for running an approved call of that agent; None for an unknown agent.

        Raises `ToolError` when the agent may not be used in this scope.
        """
        return None

    async def call(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext, turn: CallingTurn | None
    ) -> Returned:
        """Run a tool with checked arguments; `turn` is None for a call outside a turn."""
        return Returned(await tool.run(context, **arguments))

    def call_events(self, call: PendingCall) -> Sequence[ToolEvent]:
        """Return additional events of the turn for a call, besides the event of the call itself."""
        return ()

    def result_events(self, call: PendingCall, outcome: Outcome) -> Sequence[ToolEvent]:
        """Return additional events of the turn for an outcome; they precede the event of the result."""
        return ()
