"""How far a shard was listened to."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import discord

# Ours and Discord's.
CLOCKS_APART = timedelta(minutes=1)


class Checkpoint:
    """Discord's ids grow with time, so one id is a checkpoint for all channels."""

    def __init__(self) -> None:
        self._newest = 0
        self._open: set[int] = set()
        self._holds: Counter[int] = Counter()

    def begin_at(self, mark: str | None, now: datetime) -> None:
        """Continue from the previous holder's checkpoint; None means that there is nothing to catch up on.

        A mark that is none, or of a time to come, says nothing: all is read then that catch-up covers.
        """
        if mark is not None:
            latest = discord.utils.time_snowflake(now + CLOCKS_APART)
            since = int(mark) if mark.isdecimal() and 0 < int(mark) <= latest else 1
            self._newest = min(self._newest or since, since)

    @property
    def newest(self) -> int:
        """Return the id up to which everything is stored, 0 if unknown."""
        return min([self._newest, *(message_id - 1 for message_id in self._open), *self._holds])

    def to_text(self) -> str | None:
        """Return the checkpoint for the database."""
        return str(self.newest) if self.newest > 0 else None

    def begin_now(self, message_id: int) -> None:
        """Begin at this id unless a checkpoint is known."""
        self._newest = self._newest or message_id

    def hold(self, since: int | None = None) -> int:
        """Return the checkpoint (or `since`) and keep it there until `release`: missed messages may be older."""
        since = self.newest if since is None else since
        if since:
            self._holds[since] += 1
        return since

    def release(self, since: int) -> None:
        """Advance the checkpoint again: everything missed after `since` is stored."""
        self._holds -= Counter([since])

    @contextmanager
    def accepting(self, message_id: int) -> Iterator[None]:
        """Advance past a message if the block succeeds; after a failure the next catch-up finds it again."""
        self._open.add(message_id)
        yield
        # Not in a `finally`: after a cancellation the message is not stored.
        self._open.discard(message_id)
        self._newest = max(self._newest, message_id)
