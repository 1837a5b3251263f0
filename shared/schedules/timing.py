"""When a job is due: once, at an interval, or by a cron expression in a time zone."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Literal

from cronsim import CronSim, CronSimError
from msgspec import Struct

from shared.dates.zones import get_zone, to_moment
from shared.errors import ToolError

Kind = Literal["once", "every", "cron"]
Unit = Literal["second", "day"]

MAX_CRON_CHARS = 100
CRON_FIELDS = 5
# How many due times of a cron expression are looked at to find the shortest time between two.
LOOKED_AT = 50
MAX_INTERVAL = timedelta(days=3660)
UNITS = ((86_400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))
LAST = datetime(9000, 1, 1, tzinfo=UTC)


class Timing(Struct, frozen=True):
    """When a job is due.

    `starts_at` is the only due time of a job that runs once, and the first one of an interval. An interval in seconds
    is elapsed time; one in days keeps its time of day in `time_zone` when clocks change. A cron expression has five
    fields and is read as Debian's cron does: a time that clocks skip is made up for right after the gap, one that they
    show twice counts once.
    """

    kind: Kind
    time_zone: str = "UTC"
    starts_at: datetime | None = None
    every: int = 0
    unit: Unit = "second"
    cron: str = ""

    @property
    def is_repeated(self) -> bool:
        """Return whether there can be a due time after the first one."""
        return self.kind != "once"

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first due time after this moment, in UTC; None if there is none."""
        if moment >= LAST:
            return None
        if self.kind == "cron":
            return self._next_of_cron(moment)
        if self.starts_at is None or moment < self.starts_at:
            return self.starts_at
        if self.kind == "once":
            return None
        if self.unit == "second":
            passed = (moment - self.starts_at) // timedelta(seconds=self.every)
            return self.starts_at + timedelta(seconds=(passed + 1) * self.every)
        zone = get_zone(self.time_zone)
        first = self.starts_at.astimezone(zone).replace(tzinfo=None)
        passed = (moment - self.starts_at) // timedelta(days=self.every)
        # A day may be longer or shorter by the hour that clocks change.
        due = (
            to_moment(first + timedelta(days=(passed + more) * self.every), zone) for more in (0, 1, 2) if passed + more
        )
        return next(due_time for due_time in due if due_time > moment)

    def shortest_seconds(self, now: datetime) -> float:
        """Return the shortest time between two due times, in seconds; infinity if there is at most one."""
        if self.kind == "once":
            return float("inf")
        if self.kind == "every":
            return float(self.every * (86_400 if self.unit == "day" else 1))
        due, moment = list[datetime](), self._next_of_cron(now)
        while moment is not None and len(due) < LOOKED_AT:
            due.append(moment)
            moment = self._next_of_cron(moment)
        return min(((later - earlier).total_seconds() for earlier, later in pairwise(due)), default=float("inf"))

    def describe(self) -> str:
        """Return the timing in words; for a job that runs once an empty text, as its next due time says all."""
        if self.kind == "once":
            return ""
        if self.kind == "cron":
            return f"{CronSim(self.cron, datetime(2000, 1, 1)).explain()} ({self.time_zone})"  # noqa: DTZ001
        if self.unit == "second":
            size, name = next((size, name) for size, name in UNITS if self.every % size == 0)
            count = self.every // size
            return f"every {name.removesuffix('s') if count == 1 and size > 1 else f'{count} {name}'}"
        days = "day" if self.every == 1 else f"{self.every} days"
        clock_time = f" at {self.starts_at.astimezone(get_zone(self.time_zone)):%H:%M}" if self.starts_at else ""
        return f"every {days}{clock_time} ({self.time_zone})"

    def _next_of_cron(self, moment: datetime) -> datetime | None:
        # Where clocks show an hour twice, the library starts again at its beginning.
        for due in CronSim(self.cron, moment.astimezone(get_zone(self.time_zone))):
            if due > moment:
                return due.astimezone(UTC)
        return None


def once(moment: datetime, time_zone: str = "UTC") -> Timing:
    """Return the timing of a job that is due once."""
    return Timing("once", time_zone, starts_at=moment)


def by_cron(expression: str, time_zone: str) -> Timing:
    """Return the timing of a cron expression; raises `ToolError` for one that can't be read or is never due."""
    plain = " ".join(expression.split())
    wrong = f"{plain[:MAX_CRON_CHARS]!r} is no cron expression"
    examples = ["0 9 * * 1-5", "*/30 8-18 * * *", "0 12 1 * *"]
    if len(plain) > MAX_CRON_CHARS or len(plain.split()) != CRON_FIELDS:
        raise ToolError(f"{wrong}: it has five fields: minute, hour, day, month, weekday.", examples=examples)
    get_zone(time_zone)
    try:
        is_due = next(CronSim(plain, datetime(2000, 1, 1)), None) is not None  # noqa: DTZ001  # any day will do
    except (CronSimError, ValueError, AssertionError, TypeError) as error:
        raise ToolError(f"{wrong}: {str(error) or 'it is not understood'}.", examples=examples) from None
    if not is_due:
        raise ToolError(f"{wrong} that is ever due.", examples=examples)
    return Timing("cron", time_zone, cron=plain)


def at_interval(start: datetime, every: int, unit: Unit, time_zone: str) -> Timing:
    """Return the timing of an interval of `every` seconds or days; raises `ToolError` for one that is too long."""
    if every < 1 or every * (86_400 if unit == "day" else 1) > MAX_INTERVAL.total_seconds():
        raise ToolError("An interval has at least one second and at most ten years.")
    return Timing("every", time_zone, starts_at=start, every=every, unit=unit)
