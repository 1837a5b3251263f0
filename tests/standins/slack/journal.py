"""What was said between the app and Slack, with its times; and what is to go wrong."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tests.standins.slack.world import Json

KEPT = 50_000


@dataclass
class Sent:
    """One call of the Web API."""

    at: float
    method: str
    args: Json
    token: str
    status: int
    answer: Json
    is_form: bool
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.status == 200 and bool(self.answer.get("ok"))

    @property
    def error(self) -> str | None:
        return self.answer.get("error")


@dataclass
class Envelope:
    """One attempt to give something to the app, by a socket or by HTTP: `status` is an HTTP answer's.

    `reason` is why it is tried again, `failure` why it will be.
    """

    at: float
    kind: str
    payload: Json
    attempt: int
    by: str
    id: str
    acked_at: float | None = None
    status: int | None = None
    response: Any = None
    reason: str = ""
    failure: str = "timeout"

    @property
    def seconds(self) -> float | None:
        """Return how long the acknowledgement took."""
        return None if self.acked_at is None else self.acked_at - self.at


@dataclass
class Journal:
    """All of it in order. `responses` are what was posted to response URLs."""

    calls: deque[Sent] = field(default_factory=lambda: deque(maxlen=KEPT))
    envelopes: deque[Envelope] = field(default_factory=lambda: deque(maxlen=KEPT))
    responses: list[Json] = field(default_factory=list)

    @property
    def refused(self) -> list[Sent]:
        """Return the calls that were refused, other than for their number."""
        return [each for each in self.calls if not each.ok and each.status != 429]

    @property
    def deliveries(self) -> list[Envelope]:
        """Return what was sent by HTTP."""
        return [each for each in self.envelopes if each.by.startswith("http")]

    def clear(self) -> None:
        self.calls.clear()
        self.envelopes.clear()
        self.responses.clear()


@dataclass
class Fault:
    """What goes wrong with the next `times` calls of a method, or with those whose arguments hold `only`.

    `error` is answered, or an HTTP `status`; `retry_after` makes it a 429. With `after` it is done all the same,
    and with `is_lost` too, but the connection breaks before the answer. `seconds` is how long the answer takes.
    """

    method: str
    times: int = 1
    error: str = ""
    status: int = 200
    retry_after: int | None = None
    after: bool = False
    is_lost: bool = False
    seconds: float = 0.0
    only: Json = field(default_factory=dict)

    def __post_init__(self) -> None:
        is_only_slow = bool(self.seconds) and not self.error and self.status == 200 and self.retry_after is None
        self.after = self.after or self.is_lost or is_only_slow
        self._is_only_slow = is_only_slow

    def matches(self, method: str, args: Json) -> bool:
        fits = all(args.get(key) == value for key, value in self.only.items())
        return self.times > 0 and method == self.method and fits

    @property
    def keeps_answer(self) -> bool:
        """Tell whether the answer is the true one: it comes late, or is lost on the way."""
        return self.is_lost or self._is_only_slow

    def answer(self) -> tuple[int, dict[str, str], Json]:
        """Return status, headers and body of the failure."""
        if self.retry_after is not None:
            return 429, {"Retry-After": str(self.retry_after)}, {"ok": False, "error": "ratelimited"}
        return self.status, {}, {"ok": False, "error": self.error or "internal_error"}
