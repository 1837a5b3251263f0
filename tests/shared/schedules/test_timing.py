"""When jobs are due, compared with what clocks show according to the zone database."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.dates.zones import to_moment
from shared.errors import ToolError
from shared.schedules.timing import at_interval, by_cron, once

# Zones that change their clocks: by an hour, by half an hour, at midnight, and one that has left out a day.
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia", "UTC")
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)

zones = st.sampled_from(ZONES)
moments = st.datetimes(datetime(2011, 12, 1), datetime(2030, 12, 31)).map(lambda moment: moment.replace(tzinfo=UTC))  # noqa: DTZ001
minutes_of_day = st.integers(0, 24 * 60 - 1)


def shows(moment: datetime, zone: str) -> datetime:
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


@settings(max_examples=25)
@given(zone=zones, after=moments, at=minutes_of_day)
@example(zone="Europe/Berlin", after=datetime(2026, 3, 28, 12, tzinfo=UTC), at=2 * 60 + 30)
@example(zone="Europe/Berlin", after=datetime(2026, 10, 25, 0, 10, tzinfo=UTC), at=2 * 60 + 30)
@example(zone="Europe/Berlin", after=datetime(2026, 10, 25, 1, 10, tzinfo=UTC), at=2 * 60 + 30)
@example(zone="Pacific/Apia", after=datetime(2011, 12, 30, 9, 59, tzinfo=UTC), at=9 * 60)
@example(zone="America/Havana", after=datetime(2026, 3, 8, 4, 59, tzinfo=UTC), at=15)
def test_a_daily_job_is_due_when_clocks_first_show_its_time(zone: str, after: datetime, at: int) -> None:
    timing = by_cron(f"{at % 60} {at // 60} * * *", zone)

    due = timing.next_after(after)

    assert due is not None
    # Every minute of the two days around, as clocks show them; a time that is skipped counts right after the gap.
    first = after.replace(second=0, microsecond=0) - DAY
    minutes = [(first + count * MINUTE, shows(first + count * MINUTE, zone)) for count in range(5 * 24 * 60)]
    starts: dict[datetime, datetime] = {}
    for (_, earlier), (moment, later) in pairwise(minutes):
        start = datetime.combine(later.date(), datetime.min.time()) + at * MINUTE
        for candidate in (start - DAY, start):
            if earlier < candidate <= later:
                starts.setdefault(candidate, moment)
    assert due == min(moment for moment in starts.values() if moment > after)


@settings(max_examples=25)
@given(zone=zones, start=moments, days=st.integers(1, 40), times=st.integers(1, 60))
@example(zone="Europe/Berlin", start=datetime(2026, 3, 28, 1, 30, tzinfo=UTC), days=1, times=2)
def test_an_interval_in_days_keeps_its_time_of_day(zone: str, start: datetime, days: int, times: int) -> None:
    start = start.replace(second=0, microsecond=0)
    timing = at_interval(start, days, "day", zone)
    first, moment = shows(start, zone), start

    for count in range(1, times + 1):
        due = timing.next_after(moment)
        assert due == to_moment(first + count * days * DAY, ZoneInfo(zone))
        assert due > moment
        moment = due


@settings(max_examples=100)
@given(start=moments, seconds=st.integers(1, 10**8), after=moments)
def test_an_interval_in_seconds_is_elapsed_time(start: datetime, seconds: int, after: datetime) -> None:
    due = at_interval(start, seconds, "second", "Europe/Berlin").next_after(after)

    assert due is not None
    assert due > after
    assert due == start or due - timedelta(seconds=seconds) <= after
    assert (due - start) % timedelta(seconds=seconds) == timedelta()


@settings(max_examples=100)
@given(zone=zones, local=st.datetimes(datetime(2011, 12, 1), datetime(2030, 12, 31)))  # noqa: DTZ001
def test_a_local_time_is_the_first_moment_at_which_clocks_show_it_or_have_passed_it(zone: str, local: datetime) -> None:
    local = local.replace(second=0, microsecond=0)

    moment = to_moment(local, ZoneInfo(zone))

    assert shows(moment, zone) >= local
    assert shows(moment - MINUTE, zone) < local


@settings(max_examples=200)
@given(st.text("0123456789*/,-LW#SUNMON ", max_size=30) | st.text(max_size=120))
@example("0 0 30 2 1/0")
@example("0 0 * * 5L/2")
@example("99999999999999999999 1 1 1 1")
def test_any_text_is_a_cron_expression_or_an_error(text: str) -> None:
    try:
        timing = by_cron(text, "America/Havana")
    except ToolError:
        return
    due = timing.next_after(datetime(2026, 3, 8, tzinfo=UTC))
    assert due is None or due.tzinfo is UTC
    assert timing.describe()


def test_a_job_that_runs_once_is_due_once() -> None:
    due = datetime(2026, 5, 1, 9, tzinfo=UTC)

    assert once(due).next_after(due - MINUTE) == due
    assert once(due).next_after(due) is None


@pytest.mark.parametrize(
    ("cron", "seconds"), [("* * * * *", 60), ("*/5 * * * *", 300), ("0,1 9 * * *", 60), ("0 9 1 1 *", 365 * 86_400)]
)
def test_the_shortest_time_between_two_due_times_is_found(cron: str, seconds: int) -> None:
    assert by_cron(cron, "UTC").shortest_seconds(datetime(2026, 1, 1, tzinfo=UTC)) == seconds
