"""The router: tries the routes in order until one answers."""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

from msgspec.structs import replace

from agent.llm.attempts import Attempts, RouteKnowledge
from agent.llm.completions import CallObserver, Completion, Model, ModelRequest
from agent.llm.cooldowns import Cooldowns
from agent.llm.providers.catalogue import Prices
from agent.llm.providers.client import Providers
from agent.llm.providers.media import Media
from agent.llm.providers.names import UnknownName
from agent.llm.registry import BUILT_IN_MODELS, build_protocols
from agent.llm.vision import VisionSupport
from shared.clock import Clock
from shared.messages import Usage
from shared.settings import Settings

# Of agents: how many are kept read.
MAX_SCRIPTS = 50


class Router:
    """Calls the configured routes in order; a route that failed is avoided for a while.

    One per process. `prices` are the installation's own, which the worker keeps up to date; `media` calls models for
    images and sound, without routes. `warm` preloads what the
    first call needs; `aclose` closes the connections.
    """

    def __init__(self, settings: Settings, clock: Clock, *, jitter: Callable[[], float] = random.random) -> None:
        self._scripted = lru_cache(MAX_SCRIPTS)(
            lambda script: Router(settings.model_copy(update={"debug_mock_responses": script}), clock)
        )
        self._configured = settings.llm_models
        self._summary_model = settings.summary_model
        self.prices = Prices()
        self._providers = Providers(settings, clock, self.prices)
        self.media = Media(self._providers, clock)
        self._built_in: dict[str, Model] = {
            entry.name: model for entry in BUILT_IN_MODELS if (model := entry.build(settings, clock)) is not None
        }
        self._known = RouteKnowledge(
            clock=clock,
            cooldowns=Cooldowns(clock),
            protocols=build_protocols(settings.llm_protocols),
            vision=VisionSupport(lambda name: name not in self._built_in and self._providers.sees(name), clock),
            published_window=lambda name: sys.maxsize if name in self._built_in else self._providers.window(name),
            jitter=jitter,
        )
        # What a summary in the background was refused says nothing about the answers to people, who may be served.
        self._known_in_background = replace(self._known, cooldowns=Cooldowns(clock))
        self._only = tuple(entry.name for entry in BUILT_IN_MODELS if entry.is_only and entry.name in self._built_in)

    @property
    def counts_calls(self) -> bool:
        """Return whether requests have to set `position`."""
        return bool(self._only)

    def scripted(self, script: str) -> "Router":
        """Return a router for which these scripted answers stand in the settings; raises `ConfigurationError`."""
        return self._scripted(script)

    async def warm(self, *models: str) -> None:
        """Load what calls of these and the configured models need, without holding up the event loop."""
        names = {*models, *self._configured, *filter(None, (self._summary_model,))} - set(self._built_in)
        if names and not self._only:
            await self._providers.prepare(*names)

    def is_slow_to_load(self, *models: str) -> bool:
        """Return whether `warm` takes seconds, for litellm."""
        names = {*models, *self._configured} - set(self._built_in)
        return not self._only and any(self._providers.needs_litellm(name) for name in names)

    def list_models(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the models that can be named, and the providers that may have others; empty if none is configured."""
        if self._only or not self._configured:
            return frozenset(), frozenset()
        models, providers = self._providers.list_models()
        return models | {*self._configured, *self._built_in}, providers

    def priced(self, name: str, usage: Usage) -> Usage:
        """Return the usage of a model with its cost by the installation's own prices or by litellm's list."""
        return self._providers.pricing.listed(name, usage)

    async def aclose(self) -> None:
        """Close the connections to the providers."""
        await self._providers.aclose()

    def routes(self, models: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the model names to try, in order: `models`, then the configured ones, else the built-in fallback."""
        if self._only:
            return self._only
        names = tuple(dict.fromkeys((*models, *self._configured)))
        return names or tuple(entry.name for entry in BUILT_IN_MODELS if entry.is_fallback)

    def highest_price(self, model: str | None = None) -> float | None:
        """Return the highest price of a token, in US dollars, on the routes to try; None when one is unknown."""
        names = self.routes((model,) if model else ())
        prices = [0.0 if name in self._built_in else self._providers.highest_price(name) for name in names]
        amounts = [price for price in prices if price is not None]
        return max(amounts) if len(amounts) == len(prices) else None

    def can_plan(self, models: tuple[str, ...] = ()) -> bool:
        """Return whether at least one of the routes to try can answer planner requests."""
        without_plans = {entry.name for entry in BUILT_IN_MODELS if not entry.can_plan}
        return not without_plans.issuperset(self.routes(models))

    async def find_missing(self, name: str) -> tuple[str, ...] | None:
        """Return the variables that have to be set for this model; None if litellm knows no provider of it."""
        if name in self._built_in:
            return ()
        return await self._providers.find_missing(name)

    async def find_unknown(self, name: str) -> UnknownName | None:
        """Return what is wrong with a model's name, by its server's or litellm's list; None if nothing is found."""
        return None if name in self._built_in else await self._providers.find_unknown(name)

    def find_similar(self, name: str) -> tuple[str, ...]:
        """Return listed models whose names are like this one."""
        return self._providers.find_similar(name)

    async def find_summary_model(self) -> str | None:
        """Return `SUMMARY_MODEL`, else the cheapest configured model; None when only built-in models answer."""
        if self._only:
            return None
        if self._summary_model is not None or not self._configured:
            return self._summary_model
        # Of equally cheap ones the first; a model without a known price is taken only when all are like that.
        return min(self._configured, key=self._providers.pricing.both)

    def window(self, models: tuple[str, ...] = ()) -> int | None:
        """Return the context window of the first route, in tokens for prompt and answer; None if it is not known."""
        name = self.routes(models)[0]
        return None if name in self._built_in else self._known.window(name)

    def take_events(self) -> Counter[tuple[str, str, str]]:
        """Return what went wrong since the last time: failed attempts with their cause, and answers of other routes."""
        events = self._known.events.copy()
        self._known.events.clear()
        return events

    async def complete(
        self,
        request: ModelRequest,
        *,
        deadline: float,
        observer: CallObserver | None = None,
        is_background: bool = False,
    ) -> Completion:
        """Return the first usable answer; streams if the observer has `on_text`.

        `deadline`: seconds of the monotonic clock. The failures of a call in the background, for which nobody waits,
        do not close a route for other calls. Raises `ModelsUnavailable` if no route answered, `PromptTooLong` if
        all refused the prompt as too long.
        """
        observer = observer or CallObserver()
        knowledge = self._known_in_background if is_background else self._known
        attempts = Attempts(request, deadline, known=knowledge, observer=observer)
        names = self.routes(request.models)
        while True:
            cooldowns = knowledge.cooldowns
            open_names = cooldowns.in_order(names) if cooldowns else list(names)
            for name in names:
                if name not in open_names:
                    attempts.pass_over(name, "it has failed a short while ago", cooldowns[name].cause)
            for name in open_names:
                if attempts.is_too_small(name):
                    attempts.pass_over(name, "its window is too small")
                    continue
                model = self._built_in.get(name, self._providers)
                completion = await attempts.on_route(name, model, is_last=name == open_names[-1])
                if completion is not None:
                    knowledge.note_answer(name, first=names[0])
                    return replace(completion, rejected=tuple(observer.spent))
            wait = cooldowns.seconds_until_open(names)
            if wait is None or wait >= attempts.seconds_left:
                raise attempts.gave_up(cooldowns.seconds_until_probe(names) if wait is None else wait)
            await asyncio.sleep(wait)
