"""The only source of time, so that tests can control it."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A wall clock for dates and a monotonic clock for durations."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        ...

    def monotonic(self) -> float:
        """Return the seconds of a clock that never goes backwards, for timeouts and durations."""
        ...


class SystemClock:
    """The clocks of the operating system."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the seconds of the monotonic clock."""
        return time.monotonic()
