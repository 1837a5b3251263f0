"""The interface of tool providers: modules, MCP servers and other agents implement it, and the toolbox uses it."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from shared.tools import Tool, ToolContext

# A command that lists modules has no turns.
if TYPE_CHECKING:
    from agent.tools.calls import CallingTurn, PendingCall
    from agent.tools.offer import Scope
    from agent.tools.outcomes import Outcome, Returned

NO_TEXTS: Mapping[str, str] = {}
NO_TOOLS: Mapping[str, Tool] = {}
ToolEvent = tuple[str, dict[str, Any]]


class ToolProvider(Protocol):
    """A source of tools; every member has a default.

    With `is_personal` the tools differ between users: `list` itself decides who may use which, and they come last in
    the offer, so that the cached prefix of the prompt before them stays valid.
    """

    is_personal: bool = False
    # All current tools by full name, whoever may use them; what differs between users is left out of a personal one.
    # Another mapping whenever the tools or what `describe` returns have changed.
    tools: Mapping[str, Tool] = NO_TOOLS
    # What offers are cached by besides the tools, the rights and the persona. Asked for every turn: it has to be cheap.
    variant: "Callable[[Scope], Hashable] | None" = None

    def list(self, scope: "Scope") -> Sequence[Tool]:
        """Return the tools for this scope; unless `is_personal`, the toolbox removes those that are not permitted.

        The result may depend on the user's permission, the persona, its agents and the hops of the scope, but not on
        the user's identity, because offers are cached by these values.
        """
        return tuple(self.tools.values())

    def list_missing(self, scope: "Scope") -> Mapping[str, str]:
        """Return the tools that cannot be used in this scope, by full name, and why."""
        return NO_TEXTS

    def describe(self, scope: "Scope") -> Mapping[str, str]:
        """Return the text that each of its modules adds to the system prompt in this scope, by module."""
        return NO_TEXTS

    async def call(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext, turn: "CallingTurn | None"
    ) -> "Returned":
        """Run a tool with checked arguments; `turn` is None for a call outside a turn."""
        # Imported here for the reason above.
        from agent.tools.outcomes import Returned

        return Returned(await tool.run(context, **arguments))

    def list_events(self, call: "PendingCall", outcome: "Outcome | None") -> Sequence[ToolEvent]:
        """Return additional events of the turn: after the event of a call, and before that of its outcome."""
        return ()
