"""The attempts of one model call: asked, asked again when that may help, given up."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agent.llm.completions import (
    AttemptState,
    Cause,
    Completion,
    Model,
    ModelRequest,
    OnText,
    RejectedCall,
    RouteFailed,
)
from agent.llm.cooldowns import PASSING, REMEDIES, Cooldowns
from agent.llm.pruning import ContextWindows
from agent.llm.text_protocols.protocols import Protocols
from agent.llm.vision import VisionSupport, without_images
from shared.clock import Clock
from shared.errors import ModelsUnavailable, PromptTooLong
from shared.log import get_logger
from shared.messages import Usage

log = get_logger()
TRIES = 2
# A wait on the same route is worth it up to here; beyond, the next route is asked.
SHORT_WAIT = 3.0
FIRST_WAIT = 0.4
# How servers refuse a request with images, perhaps because of them.
UNSEEN = frozenset({Cause.REQUEST_REFUSED, Cause.IMAGES_REFUSED})


@dataclass(slots=True)
class Attempts:
    """One `complete` while it lasts; `rejected` are the attempts so far that cost something and gave nothing.

    `pay` settles them before another attempt may cost as much, and raises the `Refusal` when nothing is left for it.
    """

    request: ModelRequest
    deadline: float
    clock: Clock
    cooldowns: Cooldowns
    windows: ContextWindows
    protocols: Protocols
    vision: VisionSupport
    jitter: Callable[[], float]
    on_text: OnText | None
    on_reset: Callable[[], None] | None
    rejected: list[RejectedCall]
    pay: Callable[[], Awaitable[None]] | None = None
    _causes: dict[str, str] = field(default_factory=dict)
    _has_spoken: bool = False
    _tries: Counter[str] = field(default_factory=Counter)
    _pruned: set[str] = field(default_factory=set)
    _too_small: dict[str, int] = field(default_factory=dict)
    _unseeing: dict[str, Cause] = field(default_factory=dict)

    @property
    def seconds_left(self) -> float:
        """Return the time until the deadline."""
        return self.deadline - self.clock.monotonic()

    async def on_route(self, name: str, model: Model, *, is_last: bool) -> Completion | None:
        """Ask one route, again after a short wait when its failure may pass; None when the next is to be asked."""
        tries = 0
        while self.seconds_left > 0:
            tries += 1
            if self.rejected and self.pay is not None:
                await self.pay()
            # A route that hangs leaves the next one half of the time.
            limit = self.seconds_left * (1.0 if is_last else 0.5)
            request = self._fit(name)
            try:
                completion = await self._ask(name, model, request, limit)
            except RouteFailed as failure:
                wait = self._wait_after(name, failure, tries, request)
                if wait is None:
                    return None
                await asyncio.sleep(wait)
            else:
                self.cooldowns.clear(name)
                if self._unseeing.get(name) is Cause.IMAGES_REFUSED:
                    self.vision.learn(name)
                return completion
        return None

    def is_too_small(self, name: str) -> bool:
        """Tell whether this route has refused the prompt as too long, or has no more room than one that did."""
        window = self.windows.get(name)
        return name in self._too_small or (window is not None and window <= max(self._too_small.values(), default=0))

    def gave_up(self, retry_after: float | None) -> ModelsUnavailable | PromptTooLong:
        """Return the error that says that no route answered; the paid attempts are in its fields."""
        if set(self._causes.values()) == {Cause.TOO_LONG.value}:
            return PromptTooLong()
        log.error("models_unavailable", causes=self._causes, rejected=len(self.rejected))
        return ModelsUnavailable(retry_after=retry_after, rejected=tuple(self.rejected))

    def _fit(self, name: str) -> ModelRequest:
        request = without_images(self.request) if name in self._unseeing else self.vision.fit(name, self.request)
        return self.windows.fit(name, request)

    async def _ask(self, name: str, model: Model, request: ModelRequest, limit: float) -> Completion:
        self._tries[name] += 1
        attempt = AttemptState(self._tries[name])
        protocol = self.protocols.of(name, plans=request.answer_schema is not None)
        heard = protocol.listen(self._say, self._take_back) if self.on_text else None
        try:
            async with asyncio.timeout(limit):
                asked = protocol.encode(request)
                completion = await model.complete(name, asked, limit, heard.feed if heard else None, attempt)
        except TimeoutError:
            raise RouteFailed(Cause.TIMED_OUT, usage=attempt.usage) from None
        except asyncio.CancelledError:
            self._note(name, attempt.usage)
            raise
        if heard is not None:
            heard.close()
        return protocol.decode(completion)

    def _wait_to_prune(self, name: str, failure: RouteFailed, request: ModelRequest) -> float | None:
        # Once more, with more left out; then it is left to a model with a larger window.
        self.windows.learn(name, request, failure)
        is_first = name not in self._pruned
        self._pruned.add(name)
        if is_first and self._fit(name) != request:
            return 0.0
        _log_failure(name, failure, 1 if is_first else 2)
        self._too_small[name] = self.windows.get(name) or 0
        return None

    def _note(self, name: str, usage: Usage | None) -> None:
        if usage is not None:
            self.rejected.append(RejectedCall(name, usage))

    def _say(self, text: str) -> None:
        self._has_spoken = True
        if self.on_text is not None:
            self.on_text(text)

    def _take_back(self) -> None:
        if self._has_spoken and self.on_reset is not None:
            self.on_reset()
        self._has_spoken = False

    def _wait_after(self, name: str, failure: RouteFailed, tries: int, request: ModelRequest) -> float | None:
        """Note the failure; return how long to wait before the same route is tried again, None to leave it."""
        self._take_back()
        self._causes[name] = failure.cause.value
        self._note(name, failure.usage)
        if request.images and failure.cause in UNSEEN:
            self._unseeing[name] = failure.cause
            return 0.0
        if failure.cause is Cause.TOO_LONG:
            return self._wait_to_prune(name, failure, request)
        backoff = FIRST_WAIT * 2.0 ** (tries - 1) * (0.5 + self.jitter())
        wait = backoff if failure.retry_after is None else failure.retry_after
        if failure.cause in PASSING and tries < TRIES and wait <= min(SHORT_WAIT, self.seconds_left):
            return wait
        if self.cooldowns.record(name, failure):
            _log_failure(name, failure, tries)
        return None


def _log_failure(name: str, failure: RouteFailed, tries: int) -> None:
    facts = {"status": failure.status, "retry_after": failure.retry_after, "remedy": REMEDIES.get(failure.cause)}
    told = {key: value for key, value in facts.items() if value is not None}
    log.warning("route_failed", route=name, cause=failure.cause.value, tries=tries, **told)
