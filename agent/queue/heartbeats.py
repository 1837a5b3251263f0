"""Finds workers that have died, by heartbeats that no longer change.

The time of a heartbeat is the database's wall clock, which may be set back or forward. So each process measures with a
clock of its own, which never goes backwards, for how long a heartbeat has stayed the same. Only for a worker that it
has not seen before, it has to believe the database's clock.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from shared.db.driver import Session
from shared.db.statements import load_statements

statements = load_statements(__file__)

# A heartbeat that stays the same for this long is that of a dead worker.
STALE_SECONDS = 10.0
# The same, for one that is older than `STALE_SECONDS` by the database's clock as well: a process that has just started
# notices soon which workers have died before. Longer than the seconds between two heartbeats.
OLD_SECONDS = 6.0
# An observer that was away for longer, frozen or without the database, begins anew: others could not write either.
AWAY_SECONDS = 6.0


class Heartbeat(NamedTuple):
    """The last heartbeat of a worker; `is_old`: the database's clock is far from it."""

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
        sightings: dict[int, tuple[datetime, float]] = {}
        dead: list[int] = []
        for worker_id, at, is_old in heartbeats:
            sighting = self._seen.get(worker_id)
            since = sighting[1] if sighting is not None and sighting[0] == at else now
            sightings[worker_id] = (at, since)
            if now - since >= (OLD_SECONDS if is_old else STALE_SECONDS):
                dead.append(worker_id)
        self._seen = sightings
        return dead


class LiveWorkers:
    """Tells how many workers live, for one process that looks at the heartbeats from time to time."""

    def __init__(self) -> None:
        # The last heartbeat of each worker, and when the worker was known to live, by the monotonic clock.
        self._seen: dict[int, tuple[datetime, float]] = {}

    async def count(self, session: Session, now: float) -> int:
        """Look now, at a time of the monotonic clock; return how many workers live."""
        rows = (await session.execute(statements.list_heartbeats, {"stale": STALE_SECONDS})).all()
        return self.note((Heartbeat(*row) for row in rows), now)

    def note(self, heartbeats: Iterable[Heartbeat], now: float) -> int:
        """Return how many of these heartbeats are those of live workers."""
        sightings: dict[int, tuple[datetime, float]] = {}
        for worker_id, at, is_old in heartbeats:
            sighting = self._seen.get(worker_id)
            if sighting is None:
                sightings[worker_id] = (at, float("-inf") if is_old else now)
            else:
                sightings[worker_id] = sighting if sighting[0] == at else (at, now)
        self._seen = sightings
        return sum(now - lived_at < STALE_SECONDS for _, lived_at in sightings.values())
