"""Rate limits: a bucket per route and major id, a global one, and those that a test injects."""

import time
from collections import defaultdict, deque
from dataclasses import dataclass, field

from tests.standins.discord.world import Json


@dataclass
class Limits:
    """`per_route` requests in `window` seconds for each bucket; `everywhere` a second over all of them."""

    per_route: int = 5
    window: float = 1.0
    everywhere: int = 50
    refused: int = 0
    _buckets: dict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))
    _all: deque[float] = field(default_factory=deque)

    def take(self, bucket: str, *, is_exempt: bool) -> tuple[dict[str, str], Json | None]:
        """Count a request; return the headers of its answer, and the body of a 429 when it exceeds a limit."""
        at = time.monotonic()
        if not is_exempt:
            _forget(self._all, at - 1.0)
            if len(self._all) >= self.everywhere:
                return self._refuse(self._all[0] + 1.0 - at, is_global=True)
            self._all.append(at)
        times = self._buckets[bucket]
        _forget(times, at - self.window)
        is_over = len(times) >= self.per_route
        if not is_over:
            times.append(at)
        wait = times[0] + self.window - at if times else self.window
        headers = {
            "X-RateLimit-Limit": str(self.per_route),
            "X-RateLimit-Remaining": str(self.per_route - len(times)),
            "X-RateLimit-Reset": f"{time.time() + wait:.3f}",
            "X-RateLimit-Reset-After": f"{wait:.3f}",
            "X-RateLimit-Bucket": bucket.partition(" ")[0],
        }
        if not is_over:
            return headers, None
        retry_headers, body = self._refuse(wait, is_global=False)
        return headers | retry_headers, body

    def _refuse(self, wait: float, *, is_global: bool) -> tuple[dict[str, str], Json]:
        self.refused += 1
        return too_many(wait, is_global=is_global)


def too_many(wait: float, *, is_global: bool) -> tuple[dict[str, str], Json]:
    """Return headers and body of a 429; those of the route's limit come on top, unless all requests are refused."""
    headers = {"Retry-After": f"{wait:.3f}", "Via": "1.1 google"}
    headers |= {"X-RateLimit-Global": "true"} if is_global else {}
    headers["X-RateLimit-Scope"] = "global" if is_global else "user"
    return headers, {"message": "You are being rate limited.", "retry_after": round(wait, 3), "global": is_global}


def _forget(times: deque[float], before: float) -> None:
    while times and times[0] <= before:
        times.popleft()
