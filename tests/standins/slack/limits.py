"""Slack's rate limits: calls a minute by method and workspace, and new messages by channel."""

import math
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field

PER_MINUTE = {1: 1, 2: 20, 3: 50, 4: 100}
POST_METHODS = ("chat.postMessage",)
# Of apps that are distributed commercially outside the Marketplace.
HISTORY_METHODS, MOST_OBJECTS = ("conversations.history", "conversations.replies"), 15
SECONDS = 60.0
# A channel accepts about a message a second, and short bursts.
POSTS, POST_SECONDS = 10, 10.0


@dataclass
class Limits:
    """Sliding windows; `factor` 1 is as strict as Slack, and other tests use a larger one.

    With `posts` a channel accepts so many messages in `post_seconds`, whatever the factor. `is_unlisted`: the app is
    distributed commercially outside the Marketplace, and gets a history once a minute, 15 messages at a time.
    """

    factor: float = 50.0
    posts: int | None = None
    post_seconds: float = POST_SECONDS
    is_unlisted: bool = False
    _calls: defaultdict[tuple[str, ...], deque[float]] = field(default_factory=lambda: defaultdict(deque))

    def refuse(self, method: str, tier: int, team_id: str, channel_id: str | None) -> int | None:
        """Count one call; return None, or the seconds until it may be retried."""
        if method in POST_METHODS:
            most = POSTS * self.factor if self.posts is None else self.posts
            return self._take((method, team_id, channel_id or ""), most, self.post_seconds)
        if self.is_unlisted and method in HISTORY_METHODS:
            return self._take((method, team_id), 1, SECONDS)
        if tier not in PER_MINUTE:
            return None
        return self._take((method, team_id), PER_MINUTE[tier] * self.factor, SECONDS)

    def _take(self, key: tuple[str, ...], most: float, seconds: float) -> int | None:
        now, calls = time.monotonic(), self._calls[key]
        while calls and calls[0] <= now - seconds:
            calls.popleft()
        if len(calls) >= most:
            return max(1, math.ceil(calls[0] + seconds - now))
        calls.append(now)
        return None
