"""Try the routes in order until one answers; the only chat call to litellm."""

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace

from agent.llm.attempts import Attempts
from agent.llm.completions import (
    Completion,
    Model,
    ModelRequest,
    OnText,
    RejectedCall,
    ToolCall,
)
from agent.llm.cooldowns import Cooldowns
from agent.llm.offline.model import OFFLINE, OfflineModel
from agent.llm.providers import Providers
from agent.llm.pruning import ContextWindows
from agent.llm.scripted.model import SCRIPTED, ScriptedModel
from agent.llm.text_protocols.protocols import Protocols
from agent.llm.vision import VisionSupport
from shared.clock import Clock
from shared.settings import Settings

__all__ = ["Completion", "ModelRequest", "RejectedCall", "Router", "ToolCall"]


class Router:
    """The way to a model: the configured routes in order, each left alone for a while after it failed.

    One per process. `warm` loads what the first call needs; `aclose` closes the connections.
    """

    def __init__(self, settings: Settings, clock: Clock, *, jitter: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._jitter = jitter
        self._configured = settings.llm_models
        self._cooldowns = Cooldowns(clock)
        self._providers = Providers(settings, clock)
        self._windows = ContextWindows(self._known_window, clock)
        self._protocols = Protocols(settings.llm_protocols)
        self._vision = VisionSupport(self._known_sight, clock)
        self._own: dict[str, Model] = {OFFLINE: OfflineModel(clock)}
        self.is_scripted = settings.debug_mock_responses is not None
        if settings.debug_mock_responses is not None:
            self._own[SCRIPTED] = ScriptedModel(settings.debug_mock_responses)

    def _known_window(self, name: str) -> int | None:
        return sys.maxsize if name in self._own else self._providers.window(name)

    def _known_sight(self, name: str) -> bool | None:
        return False if name in self._own else self._providers.sees(name)

    async def warm(self) -> None:
        """Load litellm, which takes seconds, in a thread; nothing to load without a configured model."""
        if self._configured and not self.is_scripted:
            await self._providers.load()

    async def aclose(self) -> None:
        """Close the connections to the providers."""
        await self._providers.aclose()

    def routes(self, models: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the names that are tried, in order: these, then the configured ones, then what needs no provider."""
        if self.is_scripted:
            return (SCRIPTED,)
        return tuple(dict.fromkeys((*models, *self._configured))) or (OFFLINE,)

    async def complete(
        self,
        request: ModelRequest,
        *,
        deadline: float,
        on_text: OnText | None = None,
        on_reset: Callable[[], None] | None = None,
        spent: list[RejectedCall] | None = None,
        pay: Callable[[], Awaitable[None]] | None = None,
    ) -> Completion:
        """Return the first usable answer, before `deadline` on the monotonic clock; streams when `on_text` is given.

        `on_reset` says that the text told so far belongs to an attempt that failed. `spent` takes the attempts that
        cost something and gave no answer, also when this is cancelled; `pay` is asked before an attempt that follows
        one of them, and takes them out. Raises `ModelsUnavailable` when no route answered, `PromptTooLong` when all
        said that it is too long.
        """
        spent = [] if spent is None else spent
        attempts = Attempts(
            request,
            deadline,
            self._clock,
            self._cooldowns,
            self._windows,
            self._protocols,
            self._vision,
            self._jitter,
            on_text,
            on_reset,
            spent,
            pay,
        )
        names = self.routes(request.models)
        if request.images and any(name not in self._own for name in names):
            # Which model sees them stands in litellm's list.
            await self._providers.load()
        while True:
            open_names = self._cooldowns.in_order(names)
            for name in open_names:
                if attempts.is_too_small(name):
                    continue
                model = self._own.get(name, self._providers)
                completion = await attempts.on_route(name, model, is_last=name == open_names[-1])
                if completion is not None:
                    return replace(completion, rejected=tuple(spent))
            wait = self._cooldowns.seconds_until_open(names)
            if wait is None or wait >= attempts.seconds_left:
                raise attempts.gave_up(wait)
            await asyncio.sleep(wait)
