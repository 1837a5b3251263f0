"""Finds the modules, offers their tools by permission, and calls them.

`authorize` decides what a person may use: the offer filters with it, and every call asks it again.
"""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agent.confirmations.decisions import request_approval
from agent.delegation import agents
from agent.llm.protocols.patterns import DELEGATE
from agent.llm.tokens import count_prompt
from agent.people.agents import ListedAgent
from agent.people.personas import ResolvedPersona
from agent.prompts import prompts
from agent.tools.arguments import parse_arguments, read_arguments
from agent.tools.results import to_json
from shared.db.database import DatabaseLost
from shared.errors import ConfirmationNeeded, ToolError, Unavailable
from shared.log import get_logger
from shared.messages import Place
from shared.permissions import Permission
from shared.tasks import run_with_timeout
from shared.text import clean, cut
from shared.tools import Caller, Tool, ToolContext

MAX_NAMED_TOOLS = 40
MAX_KEPT_OFFERS = 200

log = get_logger()


@dataclass(frozen=True, slots=True)
class Scope:
    """Who asks, under which persona, where: what `authorize` looks at.

    `agents` are those of the house, `hops` the names of those who handed the task on to this turn.
    """

    user: Caller
    persona: ResolvedPersona
    place: Place
    agents: tuple[ListedAgent, ...] = ()
    hops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to: JSON text for the model and the journal; `needed`: the person's yes, nothing was done."""

    content: str
    is_error: bool
    needed: ConfirmationNeeded | None = None


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
        """Return the tool with this name: `module__tool`, `module.tool`, or a bare name that only one tool has."""
        for each in self.tools:
            if name in (each.wire_name, each.name):
                return each
        bare = [each for each in self.tools if each.run.__name__ == name]
        # The block of that name is meant for our own tool, whatever servers call theirs.
        bare = [each for each in bare if each.name == agents.TOOL] or bare
        return bare[0] if len(bare) == 1 else None


def authorize(scope: Scope, tool: Tool) -> bool:
    """Return whether this person may use this tool here: permission first, then the persona's modules."""
    if tool.module == agents.MODULE:
        return bool(agents.list_askable(scope))
    allowed = scope.persona.allowed_modules
    return tool.requires <= scope.user.permission and (allowed is None or tool.module in allowed)


class Toolbox:
    """All tools of the house. A module that fails to load is off and says so; the rest serves."""

    def __init__(
        self,
        tools: Iterable[Tool],
        failures: Mapping[str, str],
        result_limit: int,
        instructions: Mapping[str, str] | None = None,
    ) -> None:
        self._own = tuple(tools)
        self.tools: tuple[Tool, ...] = ()
        self.failures = dict(failures)
        self._instructions = dict(instructions or {})
        self._result_limit = result_limit
        self._offers: dict[tuple[Permission, frozenset[str] | None, tuple[ListedAgent, ...]], Offer] = {}
        self.set_remote(())

    @property
    def modules(self) -> frozenset[str]:
        """Return the names of the modules in the house, those that failed to load too."""
        return frozenset({agents.MODULE, *self._instructions, *self.failures, *(each.module for each in self._own)})

    def set_remote(self, tools: Iterable[Tool]) -> None:
        """Replace the tools of MCP servers: the next offer has them, and calls of running turns see what is gone."""
        self.tools = tuple(sorted((*self._own, *tools), key=lambda each: each.name))
        self._current = {each.name: each for each in self.tools}
        self._offers = {}

    def offered_to(self, scope: Scope) -> Offer:
        """Return the tools for a person in a place: one object for the same rights, so that it is rendered once."""
        askable = agents.list_askable(scope)
        key = (scope.user.permission, scope.persona.allowed_modules, askable)
        if key not in self._offers:
            while len(self._offers) >= MAX_KEPT_OFFERS:
                self._offers.pop(next(iter(self._offers)))
            tools = tuple(each for each in self.tools if authorize(scope, each))
            # Last: when an agent comes or goes, what a provider has cached of the list before it stays good.
            tools += (agents.build_tool(askable),) if askable else ()
            texts = [self._instructions.get(module, "") for module in dict.fromkeys(each.module for each in tools)]
            self._offers[key] = Offer(tools, "\n\n".join(text for text in texts if text))
        return self._offers[key]

    def find(self, name: str) -> Tool | None:
        """Return the tool that has this name now, `module.tool`."""
        return self._current.get(name)

    async def call(
        self,
        offer: Offer,
        scope: Scope,
        name: str,
        arguments: str | dict[str, Any],
        context: ToolContext,
        *,
        is_tainted: bool = False,
        can_ask: bool = True,
    ) -> Outcome:
        """Run one call; every failure comes back as an error result that says what would be valid.

        The arguments are as a model wrote them, or as `read_arguments` gave them. With `is_tainted` a tool that acts is
        run only with the person's yes. Where one is needed, the result is a question; where nobody `can_ask`, an error.
        """
        offered = offer.find(name)
        tool = self._still_there(offered)
        if tool is None or not authorize(scope, tool):
            return self._error(_missing(scope, name), available_tools=_names(offer))
        plain = read_arguments(arguments) if isinstance(arguments, str) else arguments
        try:
            given = parse_arguments(tool, plain)
        except ToolError as error:
            return self._error(str(error), **error.fields)
        if is_tainted and tool.is_acting and context.agreed_to is None:
            return self._hold_back(ConfirmationNeeded(), plain, can_ask=can_ask)
        outcome = await self._run(tool, given, context)
        return self._hold_back(outcome.needed, plain, can_ask=can_ask) if outcome.needed else outcome

    def _hold_back(self, needed: ConfirmationNeeded, plain: dict[str, Any], *, can_ask: bool) -> Outcome:
        try:
            return Outcome(request_approval(needed, plain, can_ask=can_ask), is_error=False)
        except ToolError as error:
            return self._error(str(error))

    def _still_there(self, offered: Tool | None) -> Tool | None:
        if offered is None or offered.module == agents.MODULE:
            return offered
        return self._current.get(offered.name)

    async def _run(self, tool: Tool, given: Mapping[str, Any], context: ToolContext) -> Outcome:
        tries = 2 if tool.repeatable else 1
        for left in reversed(range(tries)):
            try:
                result = await run_with_timeout(tool.timeout_seconds, tool.run(context, **given))
                return Outcome(to_json(result, self._result_limit), is_error=False)
            except (ToolError, ConfirmationNeeded) as error:
                return self._refused(error)
            except DatabaseLost as lost:
                if not tool.read_only:
                    return _after_loss(tool, lost)
                message = f"{tool.name} lost its database for a moment."
            except (Unavailable, TimeoutError) as error:
                log.warning("tool_unavailable", tool=tool.name, call=context.call_id, cause=type(error).__name__)
                message = str(error) or f"{tool.name} took longer than {tool.timeout_seconds:.0f} seconds."
            except asyncio.CancelledError:
                # Cancelled from outside, or by something within the tool that should have kept it to itself?
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise
                message = f"{tool.name} was interrupted."
            except Exception:
                # A module is foreign code to the loop: its bug is told to the operator, and the turn goes on.
                log.exception("tool_failed", tool=tool.name, call=context.call_id)
                message = f"{tool.name} failed unexpectedly."
            if not left:
                return self._error(message)
        raise AssertionError("a tool is tried at least once")

    def _refused(self, error: ToolError | ConfirmationNeeded) -> Outcome:
        if isinstance(error, ConfirmationNeeded):
            return Outcome("", is_error=True, needed=error)
        return self._error(str(error), **error.fields)

    def _error(self, message: str, **valid: Any) -> Outcome:
        told = {"error": True, "message": cut(message, self._result_limit // 2)}
        content = to_json({**told, **valid}, self._result_limit)
        # A cut result would not say any more that it is an error: rather that than what would be valid.
        fits = len(content) < self._result_limit and '"cut": true' not in content[:16]
        return Outcome(content if fits else json.dumps(told, ensure_ascii=False), is_error=True)


def to_wire_name(name: str) -> str:
    """Return a tool's name in the characters that all providers take, also for one that a model made up."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name.replace(".", "__"))[:64] or "_"


def _missing(scope: Scope, name: str) -> str:
    wants_agent = name in (DELEGATE, agents.TOOL, to_wire_name(agents.TOOL))
    return (agents.why_not(scope) if wants_agent else None) or f"There is no tool {name!r} here."


def _names(offer: Offer) -> list[str]:
    return [each.wire_name for each in offer.tools[:MAX_NAMED_TOOLS]]


def _after_loss(tool: Tool, lost: DatabaseLost) -> Outcome:
    # An agent goes on with the next attempt at the turn that asks it.
    if tool.module == agents.MODULE:
        raise lost
    return unknown_outcome()


def unknown_outcome() -> Outcome:
    """Return the result of a call with effects that was interrupted: told, and not repeated."""
    return Outcome(json.dumps({"error": True, "message": prompts().turn.unknown_outcome}), is_error=True)


def not_run(reason: str) -> Outcome:
    """Return the result of a call that was left out through no fault of its tool or its arguments."""
    return Outcome(json.dumps({"error": True, "not_run": True, "message": reason}, ensure_ascii=False), is_error=True)


def repeated_failure(content: str) -> Outcome:
    """Return the error of an earlier call with the same arguments: it is told again, and not run again."""
    told = {**json.loads(content), "hint": prompts().turn.repeated_call}
    return Outcome(json.dumps(told, ensure_ascii=False), is_error=True)


def too_many_calls(most: int) -> Outcome:
    """Return the result of the first call beyond what one answer may hold; the ones after it are not even recorded."""
    return Outcome(json.dumps({"error": True, "message": prompts().turn.too_many_calls.format(most=most)}), True)
