"""Offers the tools of all providers in a stable order, and calls them.

`find_objection` decides which tools a user may use: it filters the offer, and is asked again for every call.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Collection, Hashable, Mapping, Sequence
from typing import Any

from agent.tools.approvals import request_for_agent, request_for_tool
from agent.tools.calls import CallingTurn, PendingCall, parse_arguments
from agent.tools.offer import Offer, Scope, to_wire_name
from agent.tools.outcomes import (
    NO_WORK,
    Failed,
    ModelWork,
    Outcome,
    Result,
    Returned,
    to_json,
    to_shown_and_kept,
    unknown_outcome,
)
from agent.tools.providers import ToolEvent, ToolProvider
from agent.tools.search import ToolSearch, build_search, fit
from shared.db.database import DatabaseLost
from shared.errors import ConfirmationNeeded, ToolError, Unavailable
from shared.log import get_logger
from shared.messages import Permission
from shared.tasks import is_cancelled, run_with_timeout
from shared.text import cut
from shared.tools import Tool, ToolContext

MAX_NAMED_TOOLS = 40
MAX_KEPT_OFFERS = 200

log = get_logger()


def is_impersonal(tool: Tool) -> bool:
    """Return whether a tool reads nothing that belongs to the person, and changes nothing."""
    return tool.read_only and not tool.reads_private


def find_objection(scope: Scope, tool: Tool, *, is_personal: bool = False) -> str | None:
    """Return why a scope may not use a tool, in the words that people are shown; None if it may.

    A tool needs its own permission, or that of its module if it is higher. Of a personal provider's that of the module
    alone counts: it decides itself.
    """
    own = Permission.GUEST if is_personal else tool.requires
    least = scope.modules.get(tool.module, own)
    if least is None:
        return "an admin has switched its module off"
    if (required := max(least, own)) > scope.user.permission:
        return f"needs the permission {required.label}"
    # Of an account that many share: what one of them stores, another one would find.
    if scope.is_anonymous and not is_impersonal(tool):
        return "nobody is named whose it would be"
    modules = scope.persona.allowed_modules
    is_allowed = is_personal or modules is None or tool.module in modules
    return None if is_allowed else "the persona does not allow the module"


class Toolbox:
    """The tools of all providers. Results for the model are cut to `result_limit` characters."""

    def __init__(self, providers: Sequence[ToolProvider], result_limit: int, kept_limit: int = 0) -> None:
        """Cut results to so many characters for the model, and to `kept_limit` for what is kept of longer ones."""
        self._providers = tuple(providers)
        self._result_limit, self._kept_limit = result_limit, kept_limit
        self._offers: dict[Hashable, Offer] = {}
        # Whoever changes its tools provides another mapping.
        self._tools = [provider.tools for provider in self._providers]
        self._use: Mapping[str, int] = {}
        self._first: Collection[str] = ()
        self._search = ToolSearch(self.offered_to)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the tools of all providers that are not personal, in the order in which they are offered."""
        shared = [tool for provider in self._providers if not provider.is_personal for tool in provider.tools.values()]
        return tuple(sorted(shared, key=lambda tool: tool.name))

    def offered_to(self, scope: Scope) -> Offer:
        """Return the tools for a scope. Offers are cached: scopes with equal rights share one object."""
        current = [provider.tools for provider in self._providers]
        if any(new is not old for new, old in zip(current, self._tools, strict=True)):
            self._offers, self._tools = {}, current
        persona = scope.persona
        variants = tuple([provider.variant(scope) for provider in self._providers if provider.variant is not None])
        rights = (scope.user.permission, persona.id, persona.allowed_modules, persona.skills)
        key = (rights, tuple(scope.modules.items()), scope.agents, scope.hops, scope.is_anonymous, variants)
        if key in self._offers:
            return self._offers[key]
        permitted = [
            (provider, tool)
            for provider in self._providers
            for tool in provider.list(scope)
            if find_objection(scope, tool, is_personal=provider.is_personal) is None
        ]
        permitted.sort(key=lambda pair: (pair[0].is_personal, pair[1].name))
        personal = [tool for provider, tool in permitted if provider.is_personal]
        shared = [tool for provider, tool in permitted if not provider.is_personal]
        selection, left_out = fit(shared, personal, use=self._use, first=self._first)
        ids = {id(tool) for tool in selection}
        tools = tuple(tool for _, tool in permitted if id(tool) in ids) + (build_search(left_out) if left_out else ())
        descriptions = {
            module: text for provider in self._providers for module, text in provider.describe(scope).items()
        }
        # Of a module whose tools are found by search, too, the model knows what to mind.
        texts = [descriptions.get(module, "") for module in dict.fromkeys(tool.module for _, tool in permitted)]
        instructions = "\n\n".join(text for text in texts if text)
        while len(self._offers) >= MAX_KEPT_OFFERS:
            self._offers.pop(next(iter(self._offers)))
        offer = Offer(tools, instructions, tuple(left_out), removed=self._list_removed(scope))
        self._offers[key] = offer
        return offer

    def rank(self, use: Mapping[str, int], first: Collection[str]) -> None:
        """Prefer the tools that were called most, then those of these modules, where not all tools are offered.

        Called at the start alone: offers that change in the middle of conversations would miss the providers' caches.
        """
        self._use, self._first = use, first
        self.forget_offers()

    def forget_offers(self, _table: str | None = None) -> None:
        """Build the offers again for the next messages, because an admin has changed something."""
        self._offers.clear()

    def _list_removed(self, scope: Scope) -> dict[str, tuple[str, ...]]:
        # By the rule that removes them, in the words that people are shown.
        removals: dict[str, list[str]] = defaultdict(list)
        providers = [provider for provider in self._providers if not provider.is_personal]
        for provider in providers:
            for name, reason in provider.list_missing(scope).items():
                removals[reason].append(name)
        for tool in (tool for provider in providers for tool in provider.list(scope)):
            if (objection := find_objection(scope, tool)) is not None:
                removals[objection].append(tool.name)
        return {rule: tuple(sorted(names)) for rule, names in removals.items()}

    def find(self, name: str) -> Tool | None:
        """Return the current tool with the full name `module.tool`, if there is one; does not check permissions."""
        providers = (*self._providers, self._search)
        return next((tool for provider in providers if (tool := provider.tools.get(name)) is not None), None)

    def resolve(self, call: PendingCall) -> Tool | None:
        """Return the current tool of a call; None when it no longer exists or is not permitted."""
        _, tool, objection = self._find_current(call)
        return tool if objection is None else None

    def refuse(self, call: PendingCall) -> Failed | None:
        """Return a failed outcome when the tool of a call is missing or not permitted, otherwise None."""
        _, tool, objection = self._find_current(call)
        if tool is not None and objection is None:
            return None
        if len(matches := call.offer.list_meant(call.name)) > 1:
            # Which of them it is can't be guessed: they do different things.
            reason = f"Several tools are called {call.name!r}; call one of them by its full name."
            return self._fail(reason, available_tools=[tool.wire_name for tool in matches])
        missing = (entry for provider in self._providers for entry in provider.list_missing(call.scope).items())
        reasons = (
            f"{name} can't be used here: {reason}"
            for name, reason in missing
            if call.name in (name, to_wire_name(name), name.partition(".")[2])
        )
        # Why one that was offered was taken away since.
        why = f" Why: {objection}." if objection is not None else ""
        return self._fail(
            next(reasons, f"There is no tool {call.name!r} here.{why}"),
            available_tools=[tool.wire_name for tool in call.offer.tools[:MAX_NAMED_TOOLS]],
        )

    async def call(self, call: PendingCall, context: ToolContext, turn: CallingTurn | None = None) -> Outcome:
        """Run one call; failures become outcomes that help the model to correct the call.

        Raises `DatabaseLost` for a resumable tool, and `CancelledError` when the task is cancelled from outside.
        """
        provider, tool, objection = self._find_current(call)
        if provider is None or tool is None or objection is not None:
            return self.refuse(call) or unknown_outcome()
        try:
            arguments = parse_arguments(tool, call.arguments)
        except ToolError as error:
            return self._fail(str(error), **error.fields)
        failure = ToolError()
        for _ in range(2 if tool.repeatable else 1):
            outcome = await self._try(
                call, tool, context=context, running=provider.call(tool, arguments, context=context, turn=turn)
            )
            if not isinstance(outcome, ToolError):
                return outcome
            failure = outcome
        return self._fail(str(failure), **failure.fields)

    async def _try(
        self, call: PendingCall, tool: Tool, context: ToolContext, running: Awaitable[Returned]
    ) -> Outcome | ToolError:
        # Returns the error itself when a retry may help. `temporary` errors do not depend on the arguments.
        try:
            return self._to_outcome(call, await run_with_timeout(tool.timeout_seconds, running))
        except ConfirmationNeeded as confirmation:
            return request_for_tool(call, confirmation)
        except ToolError as error:
            return self._fail(str(error), **error.fields)
        except DatabaseLost:
            if tool.resumable:
                # The next attempt at this turn resumes the call.
                raise
            return _temporary(f"{tool.name} lost its database for a moment.") if tool.read_only else unknown_outcome()
        except (Unavailable, TimeoutError) as error:
            log.warning("tool_unavailable", tool=tool.name, call=context.call_id, cause=type(error).__name__)
            return _temporary(str(error) or f"{tool.name} took longer than {tool.timeout_seconds:.0f} seconds.")
        except asyncio.CancelledError:
            # Propagate a cancellation of this task, but not a `CancelledError` that leaked out of the tool's own code.
            if is_cancelled():
                raise
            return _temporary(f"{tool.name} was interrupted.")
        except Exception:
            # Modules are third-party code: log the bug for the operator, and let the turn continue.
            log.exception("tool_failed", tool=tool.name, call=context.call_id)
            return ToolError(f"{tool.name} failed unexpectedly.")

    def list_events(self, call: PendingCall, outcome: Outcome | None = None) -> list[ToolEvent]:
        """Return additional events of the turn: after the event of a call, and before that of its outcome."""
        return [event for provider in self._providers for event in provider.list_events(call, outcome)]

    def _find_current(self, call: PendingCall) -> tuple[ToolProvider | None, Tool | None, str | None]:
        # The tool and what speaks against the call now: the offered one may be gone, or permissions may have changed.
        if (target := call.tool) is None:
            return None, None, None
        for provider in (*self._providers, self._search):
            now = provider.list(call.scope) if provider.is_personal else (provider.tools.get(target.name),)
            for tool in now:
                if tool is not None and tool.name == target.name:
                    return provider, tool, find_objection(call.scope, tool, is_personal=provider.is_personal)
        return None, None, None

    def _to_outcome(self, call: PendingCall, returned: Returned) -> Outcome:
        if returned.asked is not None:
            return request_for_agent(call, returned.asked, returned.work)
        if returned.error is not None:
            return self._fail(str(returned.error), returned.work, **returned.error.fields)
        text, full = to_shown_and_kept(returned.value, self._result_limit, self._kept_limit)
        return Result(text, returned.work, full=full)

    def _fail(self, message: str, work: ModelWork = NO_WORK, /, **valid: Any) -> Failed:
        failure = {"error": True, "message": cut(message, self._result_limit // 2)}
        content = to_json({**failure, **valid}, self._result_limit)
        # A cut result would lose its `error` flag. If the additional fields do not fit, they are left out instead.
        fits = len(content) < self._result_limit and '"cut": true' not in content[:16]
        return Failed(content if fits else json.dumps(failure, ensure_ascii=False), work)


def _temporary(message: str) -> ToolError:
    return ToolError(message, temporary=True)
