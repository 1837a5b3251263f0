"""The only source of time: the wall clock for dates, the monotonic clock for durations."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the house asks about time; tests pass a fixed one."""

    def now(self) -> datetime:
        """Return the present moment in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never jump back, for time-outs and durations."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the present moment in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never jump back."""
        return time.monotonic()
