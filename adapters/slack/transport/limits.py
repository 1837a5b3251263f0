"""Slack's rate limits: each method has a queue for each channel, in which one call at a time waits.

Methods that read a history have one queue for all channels, as Slack counts those calls by workspace.

A 429 counts for its method and channel. Afterwards calls keep a distance for a while: if all waited for the same
moment, or each only for its predecessor, nearly every call would be refused once. Processes share the distance between
new messages of a channel.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from adapters.slack.transport.pace import FIRST_DISTANCE, GROWTH, KEPT_SECONDS, LONGEST_DISTANCE, SharedPace
from shared.clock import Clock
from shared.db.database import Database
from shared.errors import Unavailable

# Calls per minute that may be used for live text: less than Slack's limits (20, 20, 100, 50).
MINUTE = 60.0
LIVE_LIMITS = {"chat.startStream": 14, "chat.stopStream": 14, "chat.appendStream": 80, "chat.update": 35}
# A channel accepts about one new message a second: two calls at once would compete for it.
ONE_AT_A_TIME = frozenset({"chat.postMessage"})
# Apps that are distributed commercially outside the Marketplace may call these once a minute, for 15 messages.
HISTORY_METHODS = frozenset({"conversations.history", "conversations.replies"})
MOST_OBJECTS, LONG_WAIT = 15, 20.0
MOST_GATES = 5000


class RateLimited(Unavailable):
    """Slack asks to wait."""


class Gate:
    """The queue of one method in one channel; with `shared` its calls keep their distance to those of all processes."""

    def __init__(self, clock: Clock, *, is_serial: bool, shared: SharedPace | None = None) -> None:
        self._clock, self._is_serial, self._shared = clock, is_serial, shared
        self._lock = asyncio.Lock()
        self._distance = self._open_at = self._limited_at = 0.0

    @property
    def is_limited(self) -> bool:
        """Return whether Slack has refused a call of late."""
        return self._distance > 0 and self._clock.monotonic() < self._limited_at + KEPT_SECONDS

    @property
    def is_idle(self) -> bool:
        """Return whether nothing would be lost without this gate."""
        return not (self.is_limited or self._lock.locked() or self.seconds > 0)

    @property
    def seconds(self) -> float:
        """Return the seconds until the next call may be made."""
        return max(0.0, self._open_at - self._clock.monotonic())

    @asynccontextmanager
    async def passing(self, max_wait: float) -> AsyncIterator["Passage"]:
        """Wait for the calls before this one; raises `RateLimited` if that takes longer than `max_wait` seconds."""
        if not (self._is_serial or self.is_limited):
            yield Passage(self, self._clock, max_wait, is_held=False)
            return
        if self.seconds > max_wait:
            raise RateLimited(retry_after=self.seconds)
        began = self._clock.monotonic()
        try:
            # Without max_wait a call still waits for one that is under way, as long as Slack refuses none.
            async with asyncio.timeout(max_wait if self.is_limited else max(max_wait, MINUTE)):
                await self._lock.acquire()
        except TimeoutError:
            raise RateLimited(retry_after=self.seconds) from None
        try:
            yield Passage(self, self._clock, max_wait - (self._clock.monotonic() - began), is_held=True)
        finally:
            self._lock.release()

    async def reserve(self, max_wait: float) -> float:
        """Return the seconds until the call's turn among those of all processes; beyond `max_wait` it gets none."""
        slot = await self._shared.reserve(max_wait) if self._shared is not None and self.is_limited else None
        if slot is None:
            return 0.0
        self._limited_at = max(self._limited_at, self._clock.monotonic() - slot.age)
        return max(0.0, slot.wait)

    def take(self) -> None:
        """Note a call, from which the next one keeps the distance."""
        self._distance = self._distance if self.is_limited else 0.0
        self._open_at = max(self._open_at, self._clock.monotonic() + self._distance)

    async def close(self, seconds: float) -> None:
        """Make no call for this many seconds, and then fewer calls than before."""
        if self._shared is not None:
            await self._shared.slow_down(seconds)
        now = self._clock.monotonic()
        grown = self._distance * GROWTH if self.is_limited else FIRST_DISTANCE
        self._distance, self._limited_at = min(LONGEST_DISTANCE, grown), now
        self._open_at = max(self._open_at, now + seconds)


class Passage:
    """One call on its way through a gate; `is_held`: the calls behind it wait for it."""

    def __init__(self, gate: Gate, clock: Clock, max_wait: float, *, is_held: bool) -> None:
        self.is_held = is_held
        self._gate, self._clock, self._until = gate, clock, clock.monotonic() + max(0.0, max_wait)

    async def wait(self) -> None:
        """Wait until the call may be made; raises `RateLimited` if there is not enough max_wait left for that."""
        reserved = await self._gate.reserve(max(0.0, self.max_wait))
        while (seconds := max(reserved, self._gate.seconds)) > 0:
            if self._clock.monotonic() + seconds > self._until:
                raise RateLimited(retry_after=seconds)
            await asyncio.sleep(seconds)
            reserved = 0.0
        self._gate.take()

    async def close(self, seconds: float) -> None:
        """Note that Slack asks to wait."""
        await self._gate.close(seconds)

    @property
    def max_wait(self) -> float:
        """Return how many seconds the call may still wait."""
        return self._until - self._clock.monotonic()


class MethodLimits:
    """The rate limits of one token: the gates, and how often each method was called within a minute.

    With a database the processes share the pace of new messages in the channels of a workspace.
    """

    def __init__(self, clock: Clock, database: Database | None = None, team_id: str = "") -> None:
        self._clock, self._database, self._team_id = clock, database, team_id
        self._gates: dict[tuple[str, str], Gate] = {}
        self._calls: dict[str, deque[float]] = defaultdict(deque)

    def gate(self, method: str, channel: str) -> Gate:
        """Return the gate of a method in a channel."""
        key = (method, "" if method in HISTORY_METHODS else channel)
        gate = self._gates.get(key)
        if gate is None:
            if len(self._gates) >= MOST_GATES:
                self._gates = {old_key: old_gate for old_key, old_gate in self._gates.items() if not old_gate.is_idle}
            is_serial, shared = method in ONE_AT_A_TIME, None
            if is_serial and self._database is not None:
                shared = SharedPace(self._database, self._team_id, method, channel=channel)
            gate = self._gates[key] = Gate(self._clock, is_serial=is_serial, shared=shared)
        return gate

    def note(self, method: str) -> None:
        """Count a call."""
        if method in LIVE_LIMITS:
            self._calls[method].append(self._clock.monotonic())

    def has_spare(self, channel: str, *methods: str) -> bool:
        """Return whether these methods may be called for live text and still leave calls for replies."""
        since = self._clock.monotonic() - MINUTE
        for method in methods:
            calls = self._calls[method]
            while calls and calls[0] < since:
                calls.popleft()
            if self.gate(method, channel).seconds > 0 or len(calls) >= LIVE_LIMITS[method]:
                return False
        return True
