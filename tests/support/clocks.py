"""Clocks that a test sets."""

from datetime import datetime


class SetClock:
    """A clock that stands at a moment until the test moves it."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.moment.timestamp()
