"""Finds workers that have died, by heartbeats that no longer change.

The time of a heartbeat is the database's wall clock, which may be set back or forward. So each process measures with a
clock of its own, which never goes backwards, for how long a heartbeat has stayed the same.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text

# A heartbeat that stays the same for this long is that of a dead worker.
STALE_SECONDS = 10.0
# The same, for one that is older than `STALE_SECONDS` by the database's clock as well: a process that has just started
# notices soon which workers have died before. Longer than the seconds between two heartbeats.
OLD_SECONDS = 6.0
# An observer that was away for longer, frozen or without the database, begins anew: others could not write either.
AWAY_SECONDS = 6.0

HEARTBEATS = text("""
SELECT id, last_heartbeat, last_heartbeat < now() - :stale * interval '1 second' AS is_old FROM procrastinate_workers
""")
DELETE = text("DELETE FROM procrastinate_workers WHERE id = ANY(CAST(:dead AS bigint[]))")


class Heartbeat(NamedTuple):
    """The last heartbeat of a worker; `is_old` by the database's clock."""

    worker_id: int
    at: datetime
    is_old: bool


class Heartbeats:
    """The heartbeats that this process has seen, and when it saw each for the first time."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[datetime, float]] = {}
        self._last_look = 0.0

    def find_dead(self, heartbeats: Iterable[Heartbeat], now: float) -> list[int]:
        """Return the ids of the workers that are dead; `now` is the time of the monotonic clock."""
        if now - self._last_look > AWAY_SECONDS:
            self._seen.clear()
        self._last_look = now
        seen: dict[int, tuple[datetime, float]] = {}
        dead: list[int] = []
        for worker_id, at, is_old in heartbeats:
            known = self._seen.get(worker_id)
            since = known[1] if known is not None and known[0] == at else now
            seen[worker_id] = (at, since)
            if now - since >= (OLD_SECONDS if is_old else STALE_SECONDS):
                dead.append(worker_id)
        self._seen = seen
        return dead
