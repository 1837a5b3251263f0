"""Time zones by name, and the moment that a wall clock shows a time, also on days when clocks change."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shared.errors import ToolError


def find_zone(name: str) -> ZoneInfo | None:
    """Return the time zone with this IANA name, None if there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def resolve_zone(name: str) -> ZoneInfo:
    """Return the time zone with this IANA name, UTC if there is none."""
    return find_zone(name) or ZoneInfo("UTC")


def get_zone(name: str) -> ZoneInfo:
    """Return the time zone with this IANA name; raises `ToolError` if there is none."""
    zone = find_zone(name)
    if zone is None:
        raise ToolError(f"There is no time zone {name[:64]!r}.", examples=["Europe/Berlin", "America/New_York", "UTC"])
    return zone


def today_in(now: datetime, time_zone: str) -> date:
    """Return the current date in a time zone; an unknown time zone counts as UTC."""
    return now.astimezone(resolve_zone(time_zone)).date()


def to_moment(local: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment, in UTC, at which clocks in the zone show this time (without a zone of its own).

    Of a time that clocks show twice it is the first one; of one that they skip, the first minute after the gap.
    """
    wall_time = local.replace(tzinfo=zone, fold=0)
    while wall_time.astimezone(UTC).astimezone(zone) != wall_time:
        local += timedelta(minutes=1)
        wall_time = local.replace(second=0, microsecond=0, tzinfo=zone, fold=0)
    return wall_time.astimezone(UTC)
