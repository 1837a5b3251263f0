"""The attempts of one model call: which routes may be tried now, and whether to retry one or go on to the next."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct, field

from agent.llm.completions import (
    AttemptState,
    CallObserver,
    Cause,
    Completion,
    Model,
    ModelRequest,
    OnText,
    RejectedCall,
    RouteAttempt,
    RouteFailed,
)
from agent.llm.cooldowns import REMEDIES, Cooldowns
from agent.llm.protocols.patterns import BEGINS
from agent.llm.protocols.protocol import NATIVE, Protocol
from agent.llm.protocols.scanner import Scanner
from agent.llm.pruning import estimate_window, prune
from agent.llm.vision import VisionSupport, without_images
from shared.clock import Clock
from shared.errors import AnswerFiltered, ModelsUnavailable, PromptTooLong
from shared.log import get_logger
from shared.messages import Usage
from shared.tasks import run_on_text
from shared.tracing.spans import span

log = get_logger()
ANSWERED = "answered"
TRIES = 2
# The longest wait in seconds before a retry on the same route; if it is longer, the next route is tried.
SHORT_WAIT = 3.0
FIRST_WAIT = 0.4
# The window in tokens for a model that litellm does not know, until it refuses a prompt.
DEFAULT_WINDOW = 128_000
# Learned windows expire, because a server may get a larger window, or the limit may apply to one minute only.
LEARNED_SECONDS = 600.0
# An upper bound of the tokens that a message takes in addition to its text.
WRAPPING = 40
# Temporary failures: the next attempt on the same route may succeed.
PASSING = frozenset({Cause.RATE_LIMITED, Cause.UNREACHABLE, Cause.MALFORMED, Cause.EMPTY, Cause.CUT})
# Causes of a refusal that the images in the request may have triggered.
PERHAPS_IMAGES = frozenset({Cause.REQUEST_REFUSED, Cause.IMAGES_REFUSED})


class RouteKnowledge(Struct, frozen=True):
    """State about the routes that all model calls of a process share and update.

    `protocols`: those of the routes that do not use native tool calling, by route. `published_window` returns the
    context window of a route, in tokens.
    """

    clock: Clock
    cooldowns: Cooldowns
    protocols: Mapping[str, Protocol]
    vision: VisionSupport
    published_window: Callable[[str], int | None]
    jitter: Callable[[], float]
    # What routes have refused: by route, the window in tokens by our own estimate, and until when it counts.
    learned_windows: dict[str, tuple[int, float]] = field(default_factory=dict)
    # Since they were stored last: ("route_failure", model, cause) and ("fallback", first model, the one that answered).
    events: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def window(self, name: str) -> int | None:
        """Return the context window of a route, for prompt and answer together; None if it is not known."""
        window, until = self.learned_windows.get(name, (0, 0.0))
        return window if window and self.clock.monotonic() < until else self.published_window(name)

    def note_answer(self, name: str, *, first: str) -> None:
        """Count the answer of a model if another one was to be asked first."""
        if name != first:
            self.events["fallback", first, name] += 1


class _RouteState(Struct):
    # The state of one route in this call; `window`: its window in tokens, set once it has finally refused the prompt.
    tries: int = 0
    cause: Cause | None = None
    is_pruned: bool = False
    window: int | None = None
    images_refused: Cause | None = None


class Attempts(Struct):
    """The attempts of one model call on all its routes, until `deadline` (seconds of the monotonic clock)."""

    request: ModelRequest
    deadline: float
    known: RouteKnowledge
    observer: CallObserver
    _has_streamed: bool = False
    _routes: dict[str, _RouteState] = field(default_factory=lambda: defaultdict(_RouteState))

    @property
    def seconds_left(self) -> float:
        """Return the seconds until the deadline."""
        return self.deadline - self.known.clock.monotonic()

    async def on_route(self, name: str, model: Model, *, is_last: bool) -> Completion | None:
        """Call one route, with retries after a short wait; returns None if the next route should be tried."""
        tries = 0
        while self.seconds_left > 0:
            tries += 1
            if self.observer.spent and self.observer.pay is not None:
                await self.observer.pay()
            # At most half of the remaining time, so that there is time left for the next route.
            limit = self.seconds_left * (1.0 if is_last else 0.5)
            request, began = self._fit(name), self.known.clock.monotonic()
            note = partial(
                self._note_attempt, name, began, is_pruned=len(request.messages) < len(self.request.messages)
            )
            try:
                completion = await self._ask(name, model, request, limit=limit)
            except asyncio.CancelledError:
                note("cancelled")
                raise
            except RouteFailed as failure:
                note(failure.cause.value, status=failure.status)
                wait = self._wait_after(name, failure, tries=tries, request=request)
                if wait is None:
                    return None
                await asyncio.sleep(wait)
            else:
                note(ANSWERED)
                self.known.cooldowns.pop(name, None)
                if self._routes[name].images_refused is Cause.IMAGES_REFUSED:
                    self.known.vision.learn(name)
                return completion
        return None

    def pass_over(self, name: str, reason: str, cause: Cause | None = None) -> None:
        """Note why a route is not tried; `cause` is that of its last failure."""
        self._routes[name].cause = self._routes[name].cause or cause
        self.observer.attempts.append(RouteAttempt(name, f"passed over: {reason}"))

    def _note_attempt(
        self, name: str, began: float, outcome: str, *, is_pruned: bool, status: int | None = None
    ) -> None:
        seconds = round(self.known.clock.monotonic() - began, 3)
        self.observer.attempts.append(RouteAttempt(name, outcome, seconds, status=status, is_pruned=is_pruned))

    def is_too_small(self, name: str) -> bool:
        """Return whether this route, or one with at least as large a window, has refused the prompt as too long."""
        window = self.known.window(name)
        windows = [route.window for route in self._routes.values() if route.window is not None]
        return self._routes[name].window is not None or (window is not None and window <= max(windows, default=0))

    def gave_up(self, retry_after: float | None) -> ModelsUnavailable | PromptTooLong:
        """Return the error for a call that no route answered.

        `PromptTooLong` if all routes refused the prompt as too long, else `ModelsUnavailable` with the paid attempts.
        """
        causes = {name: route.cause.value for name, route in self._routes.items() if route.cause is not None}
        if set(causes.values()) == {Cause.TOO_LONG.value}:
            return PromptTooLong()
        log.error("models_unavailable", causes=causes, rejected=len(self.observer.spent))
        error = AnswerFiltered if set(causes.values()) == {Cause.FILTERED.value} else ModelsUnavailable
        return error(retry_after=retry_after, rejected=tuple(self.observer.spent), causes=causes)

    def _fit(self, name: str) -> ModelRequest:
        if self._routes[name].images_refused:
            request = without_images(self.request)
        else:
            request = self.known.vision.fit(name, self.request) if self.request.images else self.request
        window = self.known.window(name) or DEFAULT_WINDOW
        is_short = request.tokens is not None and request.tokens + WRAPPING * len(request.messages) <= window
        return request if is_short else prune(request, window)

    async def _ask(self, name: str, model: Model, request: ModelRequest, limit: float) -> Completion:
        state = self._routes[name]
        state.tries += 1
        protocol = self.known.protocols.get(name, NATIVE)
        if request.writer is not None:
            protocol = protocol.with_writer(request.writer)
        if protocol.writer is not None:
            request = protocol.writer.write(request)
        stream = _Stream(protocol, self._stream, self._retract) if self.observer.on_text else None
        attempt = AttemptState(limit, stream.feed if stream else None, state.tries)
        try:
            async with asyncio.timeout(limit):
                completion = await _complete(name, model, request, attempt=attempt)
        except TimeoutError:
            raise RouteFailed(Cause.TIMED_OUT, usage=attempt.usage) from None
        except asyncio.CancelledError:
            self._note(name, attempt.usage)
            raise
        if stream is not None and stream.scanner is not None:
            stream.scanner.close()
        if completion.stop != "max_tokens" and not completion.thinking and BEGINS.search(completion.text) is None:
            return completion
        return await run_on_text(lambda _: protocol.decode(completion), completion.text)

    def _note(self, name: str, usage: Usage | None) -> None:
        if usage is not None:
            self.observer.spent.append(RejectedCall(name, usage))

    def _stream(self, text: str) -> None:
        self._has_streamed = True
        if self.observer.on_text is not None:
            self.observer.on_text(text)

    def _retract(self) -> None:
        if self._has_streamed and self.observer.on_reset is not None:
            self.observer.on_reset()
        self._has_streamed = False

    def _wait_after(self, name: str, failure: RouteFailed, tries: int, request: ModelRequest) -> float | None:
        """Record the failure; return the seconds to wait before a retry on this route, or None to try the next one."""
        self._retract()
        self.known.events["route_failure", name, failure.cause.value] += 1
        self._routes[name].cause = failure.cause
        self._note(name, failure.usage)
        if request.images and failure.cause in PERHAPS_IMAGES:
            self._routes[name].images_refused = failure.cause
            return 0.0
        if failure.cause is Cause.TOO_LONG:
            # One retry with a shorter prompt; after that only a model with a larger window can help.
            until = self.known.clock.monotonic() + LEARNED_SECONDS
            self.known.learned_windows[name] = estimate_window(request, failure), until
            state = self._routes[name]
            is_first = not state.is_pruned
            state.is_pruned = True
            if is_first and self._fit(name) != request:
                return 0.0
            _log_failure(name, failure, 1 if is_first else 2)
            state.window = self.known.window(name) or 0
            return None
        backoff = FIRST_WAIT * 2.0 ** (tries - 1) * (0.5 + self.known.jitter())
        wait = backoff if failure.retry_after is None else failure.retry_after
        if failure.cause in PASSING and tries < TRIES and wait <= min(SHORT_WAIT, self.seconds_left):
            return wait
        if self.known.cooldowns.record(name, failure):
            _log_failure(name, failure, tries)
        return None


class _Stream:
    # Passes a streamed text on as it comes; from the first piece on in which a mark may begin, the scanner does.
    def __init__(self, protocol: Protocol, on_text: OnText, on_reset: Callable[[], None]) -> None:
        self.scanner: Scanner | None = None
        self._protocol, self._on_text, self._on_reset = protocol, on_text, on_reset
        self._passed: list[str] = []

    def feed(self, piece: str) -> None:
        if self.scanner is None and BEGINS.search(piece) is not None:
            self.scanner = self._protocol.listen(self._on_text, self._on_reset, "".join(self._passed))
        if self.scanner is not None:
            self.scanner.feed(piece)
        elif piece:
            self._passed.append(piece)
            self._on_text(piece)


async def _complete(name: str, model: Model, request: ModelRequest, *, attempt: AttemptState) -> Completion:
    provider = name.partition("/")[0] if "/" in name else None
    parameters = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": name,
        "gen_ai.request.max_tokens": request.max_tokens,
        "parley.try": attempt.tries,
    }
    with span(f"chat {name}", parameters, kind="client") as current_span:
        try:
            completion = await model.complete(name, request, attempt)
        except RouteFailed as failure:
            current_span.fail(failure.cause.value)
            current_span.note({"http.response.status_code": failure.status})
            raise
        usage = completion.usage
        current_span.note(
            {
                "gen_ai.response.model": completion.model,
                "gen_ai.response.finish_reasons": (completion.stop,),
                "gen_ai.usage.input_tokens": usage.input_tokens,
                "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
                "gen_ai.usage.output_tokens": usage.output_tokens,
                "parley.cost": None if usage.cost is None else float(usage.cost),
            }
        )
    return completion


def _log_failure(name: str, failure: RouteFailed, tries: int) -> None:
    facts = {"status": failure.status, "retry_after": failure.retry_after, "remedy": REMEDIES.get(failure.cause)}
    fields = {key: value for key, value in facts.items() if value is not None}
    log.warning("route_failed", route=name, cause=failure.cause.value, tries=tries, **fields)
