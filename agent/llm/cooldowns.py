"""Cooldowns: which routes are avoided for a while after a failure, and for how long."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from agent.llm.completions import Cause, RouteFailed
from shared.clock import Clock

# Seconds to avoid a route with a problem that only an operator can fix, as long as another one answers.
LONG_COOLDOWN = 600.0
# Seconds between two tries of such a route when no other is left: soon after the operator has mended it, it answers.
PROBE_SECONDS = 15.0
FIRST_COOLDOWN = 2.0
LONGEST_COOLDOWN = 60.0
# Why a route gives no answer, in words for operators.
SENTENCES = {
    Cause.RATE_LIMITED: "{name} is asked more often than its provider allows (429).",
    Cause.UNREACHABLE: "{name} can't be reached, or its server fails.",
    Cause.TIMED_OUT: "{name} did not answer in time.",
    Cause.MALFORMED: "{name} gave an answer that can't be read.",
    Cause.EMPTY: "{name} gave an empty answer.",
    Cause.CUT: "{name} broke off its answer.",
    Cause.TOO_LONG: "{name} can't take a prompt of this length.",
    Cause.REQUEST_REFUSED: "{name} refuses the request (400).",
    Cause.FILTERED: "{name} refuses the request: its provider's content filter.",
    Cause.IMAGES_REFUSED: "{name} takes no images.",
    Cause.KEY_REFUSED: "The key of {name} is refused (401 or 403).",
    Cause.MODEL_UNKNOWN: "{name} is unknown to its provider (404), or its name to litellm.",
    Cause.OUT_OF_CREDIT: "The account of {name} has no credit left (402).",
}
# What only an operator can mend.
REMEDIES = {
    Cause.KEY_REFUSED: "Correct its API key in the environment or in .env, then restart.",
    Cause.MODEL_UNKNOWN: "Correct LLM_MODELS.",
    Cause.OUT_OF_CREDIT: "Top it up, or name another model in LLM_MODELS.",
}
# The request is at fault, not the route.
OF_THE_REQUEST = frozenset({Cause.TOO_LONG, Cause.REQUEST_REFUSED, Cause.FILTERED, Cause.IMAGES_REFUSED})


def to_cause_lines(causes: Mapping[str, str]) -> str:
    """Return why each route gave no answer, a line each, with the remedy if an operator has to mend it."""
    return "\n".join(to_cause_line(name, Cause(cause)) for name, cause in causes.items())


def to_cause_line(name: str, cause: Cause) -> str:
    """Return why one route gave no answer."""
    return " ".join(filter(None, (SENTENCES[cause].format(name=name), REMEDIES.get(cause))))


class Cooldown(Struct):
    """The time until which a route is avoided (seconds of the monotonic clock), after so many failures in a row.

    `probe_at`: when it is tried nevertheless if no other route is left, for a route that only an operator can mend.
    """

    until: float = 0.0
    failures: int = 0
    cause: Cause | None = None
    probe_at: float | None = None
    # A closed route is never tried early; others are tried early if no healthy route is left.
    is_closed: bool = False


class Cooldowns(dict[str, Cooldown]):
    """The routes that have failed and not answered since, by model name."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Return the routes to try now: healthy ones in the given order, then failed but not closed ones.

        When there is none, the next that is due for a probe; who gets it is the only one to try it for a while.
        """
        now = self._clock.monotonic()
        healthy, shaky = [], []
        for name in names:
            entry = self.get(name)
            if entry is None or entry.until <= now:
                healthy.append(name)
            elif not entry.is_closed:
                shaky.append(name)
        if healthy or shaky:
            return healthy + shaky
        due = [
            (entry.probe_at, name, entry)
            for name in names
            if (entry := self.get(name)) and entry.probe_at is not None and entry.probe_at <= now
        ]
        if not due:
            return []
        _, name, entry = min(due, key=lambda probe: probe[0])
        entry.probe_at = now + PROBE_SECONDS
        return [name]

    def seconds_until_open(self, names: Iterable[str]) -> float | None:
        """Return the seconds until the first route opens that is closed for a time; None if there is none."""
        ends = [
            entry.until for name in names if (entry := self.get(name)) and entry.is_closed and entry.probe_at is None
        ]
        return max(0.0, min(ends) - self._clock.monotonic()) if ends else None

    def seconds_until_probe(self, names: Iterable[str]) -> float | None:
        """Return the seconds until the first route is probed that an operator has to mend; None if there is none."""
        probes = [entry.probe_at for name in names if (entry := self.get(name)) and entry.probe_at is not None]
        return max(0.0, min(probes) - self._clock.monotonic()) if probes else None

    def record(self, name: str, failure: RouteFailed) -> bool:
        """Start or extend the route's cooldown; returns whether the failure is new and should be logged."""
        if failure.cause in OF_THE_REQUEST:
            return True
        now = self._clock.monotonic()
        entry = self.setdefault(name, Cooldown())
        # Failures of concurrent calls count as one.
        is_news = entry.until <= now
        entry.failures += is_news
        has_to_wait = failure.cause is Cause.RATE_LIMITED or failure.retry_after is not None
        entry.cause = failure.cause
        entry.is_closed = has_to_wait or failure.cause in REMEDIES
        entry.probe_at = now + PROBE_SECONDS if failure.cause in REMEDIES else None
        if failure.cause in REMEDIES:
            seconds = LONG_COOLDOWN
        elif failure.retry_after is not None:
            # A minimum, because a server that always answers with 0 would otherwise be called in a tight loop.
            seconds = max(failure.retry_after, 0.5)
        else:
            seconds = min(FIRST_COOLDOWN * 2.0 ** min(entry.failures - 1, 8), LONGEST_COOLDOWN)
        entry.until = max(entry.until, now + seconds)
        return is_news
