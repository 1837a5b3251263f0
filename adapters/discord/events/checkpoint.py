"""How far this process has come: up to which message all that came before is stored."""

from collections.abc import Iterator
from contextlib import contextmanager


class Checkpoint:
    """Ids of messages grow with time, so that one number says it for all channels."""

    def __init__(self) -> None:
        self._newest = 0
        self._open: set[int] = set()

    def begin_at(self, known: str | None) -> None:
        """Go on where the holder before has stopped; with nothing known there is nothing to catch up with."""
        if known is not None and known.isdecimal():
            self._newest = min(self._newest or int(known), int(known))

    @property
    def newest(self) -> int:
        """Return the id up to which everything is stored; 0 when nothing is known."""
        return min([self._newest, *(each - 1 for each in self._open)])

    def to_text(self) -> str | None:
        """Return it for the table."""
        return str(self.newest) if self.newest > 0 else None

    def begin_now(self, message_id: int) -> None:
        """Begin with this one, unless something is known."""
        self._newest = self._newest or message_id

    def hold(self) -> int:
        """Return how far it has come, and stay there until `release`: what comes next may lie behind a gap."""
        since = self.newest
        if since:
            self._open.add(since + 1)
        return since

    def release(self, since: int) -> None:
        """Go on: the gap behind `since` is filled."""
        self._open.discard(since + 1)

    @contextmanager
    def taking(self, message_id: int) -> Iterator[None]:
        """Take a message; when that fails it counts as not seen, and is found again by the next catch-up."""
        self._open.add(message_id)
        yield
        # Not in a `finally`: what was cut off is not stored.
        self._open.discard(message_id)
        self._newest = max(self._newest, message_id)
