"""The traffic between app and Slack with its times, and the faults to inject."""

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
    """One delivery attempt, through a socket or HTTP: `status` is the HTTP status.

    `reason` is why it is a retry, `failure` why it will be retried.
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
    """The traffic in order. `responses` are posts to response URLs."""

    calls: deque[Sent] = field(default_factory=lambda: deque(maxlen=KEPT))
    envelopes: deque[Envelope] = field(default_factory=lambda: deque(maxlen=KEPT))
    responses: list[Json] = field(default_factory=list)

    @property
    def refused(self) -> list[Sent]:
        """Return the calls that were refused for other reasons than rate limits."""
        return [call for call in self.calls if not call.ok and call.status != 429]

    @property
    def deliveries(self) -> list[Envelope]:
        """Return the deliveries over HTTP."""
        return [envelope for envelope in self.envelopes if envelope.by.startswith("http")]

    def clear(self) -> None:
        self.calls.clear()
        self.envelopes.clear()
        self.responses.clear()


@dataclass
class Fault:
    """A fault of the next `times` calls of a method, or of those whose arguments contain `only`.

    The response is `error`, or an HTTP `status`; `retry_after` makes it a 429. With `after` the call takes effect all
    the same; with `is_lost` too, but the connection breaks before the response; with `is_cut` the connection breaks
    before the call takes effect. `seconds` delays the response, `body` is one of any form.
    """

    method: str
    times: int = 1
    error: str = ""
    status: int = 200
    retry_after: int | None = None
    after: bool = False
    is_lost: bool = False
    is_cut: bool = False
    seconds: float = 0.0
    only: Json = field(default_factory=dict)
    body: Json | None = None

    def __post_init__(self) -> None:
        is_only_slow = (
            bool(self.seconds)
            and self.body is None
            and not self.error
            and self.status == 200
            and self.retry_after is None
        )
        self.after = self.after or self.is_lost or is_only_slow
        self.is_lost = self.is_lost or self.is_cut
        self._is_only_slow = is_only_slow

    def matches(self, method: str, args: Json) -> bool:
        fits = all(args.get(key) == value for key, value in self.only.items())
        return self.times > 0 and method == self.method and fits

    @property
    def keeps_answer(self) -> bool:
        """Tell whether the call takes effect, with a delayed or lost response."""
        return self.is_lost or self._is_only_slow

    def answer(self) -> tuple[int, dict[str, str], Json]:
        """Return status, headers and body of the failure."""
        if self.retry_after is not None:
            return 429, {"Retry-After": str(self.retry_after)}, {"ok": False, "error": "ratelimited"}
        return (
            self.status,
            {},
            self.body or {"ok": False, "error": self.error or ("connection_cut" if self.is_cut else "internal_error")},
        )
