"""The checkpoint of this process: the id up to which every message is stored."""

from collections.abc import Iterator
from contextlib import contextmanager


class Checkpoint:
    """Discord's ids grow with time, so one id is a checkpoint for all channels."""

    def __init__(self) -> None:
        self._newest = 0
        self._open: set[int] = set()

    def begin_at(self, known: str | None) -> None:
        """Continue from the previous holder's checkpoint; None means that there is nothing to catch up on."""
        if known is not None and known.isdecimal():
            self._newest = min(self._newest or int(known), int(known))

    @property
    def newest(self) -> int:
        """Return the id up to which everything is stored, 0 if unknown."""
        return min([self._newest, *(each - 1 for each in self._open)])

    def to_text(self) -> str | None:
        """Return the checkpoint for the database."""
        return str(self.newest) if self.newest > 0 else None

    def begin_now(self, message_id: int) -> None:
        """Begin at this id unless a checkpoint is known."""
        self._newest = self._newest or message_id

    def hold(self) -> int:
        """Return the checkpoint and keep it there until `release`: missed messages may be older than new ones."""
        since = self.newest
        if since:
            self._open.add(since + 1)
        return since

    def release(self, since: int) -> None:
        """Advance the checkpoint again: everything missed after `since` is stored."""
        self._open.discard(since + 1)

    @contextmanager
    def accepting(self, message_id: int) -> Iterator[None]:
        """Advance past a message if the block succeeds; after a failure the next catch-up finds it again."""
        self._open.add(message_id)
        yield
        # Not in a `finally`: after a cancellation the message is not stored.
        self._open.discard(message_id)
        self._newest = max(self._newest, message_id)
