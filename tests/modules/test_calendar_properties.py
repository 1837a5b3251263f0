"""What is true of all dates that the module `calendar` gives, whatever is asked and whenever."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from modules import calendar
from modules.calendar.holidays import find_holiday, get_holiday, list_of_country
from modules.calendar.table import HOLIDAYS
from shared.dates.hints import EXAMPLES, resolve
from shared.db.database import Database
from shared.errors import ToolError
from shared.messages import Permission
from tests.support.tool_calls import call
from tests.support.tool_context import make_tool_context

MOMENTS = st.integers(0, 36_500).map(lambda days: datetime(1990, 1, 1, 12, tzinfo=UTC) + timedelta(days=days))
WEEK_STARTS = st.sampled_from(["monday", "saturday", "sunday"])
WORDS = st.sampled_from(
    ("next", "this", "last", "weekend", "week", "month", "friday", "first", "3", "in", "days", "nights", "from")
) | st.sampled_from(("of", "to", "and", "17", "january", "2027-01-17", "morning", "-"))
HINTS = st.sampled_from(EXAMPLES) | st.lists(WORDS, min_size=1, max_size=7).map(" ".join) | st.text(max_size=40)
EVE = timedelta(days=1)


@given(hint=HINTS, now=MOMENTS, week_start=WEEK_STARTS)
def test_a_hint_gives_dates_in_their_order_and_a_stay_of_a_night_or_more(
    hint: str, now: datetime, week_start: str
) -> None:
    try:
        dates = resolve(hint, now, "Europe/Berlin", week_start)
    except ToolError:
        return
    assert dates.start <= dates.end
    assert dates.days == (dates.end - dates.start).days + 1
    if dates.end < date.max:
        assert dates.check_in < dates.check_out
    assert dates.check_in <= dates.start
    assert dates.sentence()


@given(now=MOMENTS, words=st.sampled_from([("next weekend", 1), ("this weekend", 0), ("naechstes Wochenende", 1)]))
@example(now=datetime(2026, 11, 22, 12, tzinfo=UTC), words=("next weekend", 1))
def test_a_weekends_stay_is_friday_to_sunday(now: datetime, words: tuple[str, int]) -> None:
    hint, weeks = words
    stay, today = resolve(hint, now), now.date()

    assert (stay.check_in.weekday(), stay.check_out.weekday()) == (4, 6)
    assert (stay.check_out - stay.check_in).days == 2
    assert timedelta(days=7 * weeks) <= stay.check_out - today <= timedelta(days=7 * weeks + 6)


@settings(max_examples=60)
@given(holiday=st.sampled_from(HOLIDAYS), year=st.integers(2001, 2034))
@example(holiday=next(entry for entry in HOLIDAYS if entry.name == "Hanukkah"), year=2026)
def test_a_holiday_that_begins_at_sunset_begins_with_the_evening_before(holiday: Any, year: int) -> None:
    try:
        dates = get_holiday(holiday.name, year, date(2026, 11, 21)).date_range
    except ToolError:
        assert not list(holiday.first(year))
        return
    first = min(holiday.first(year))

    assert dates.begins_at_sunset is holiday.begins_at_sunset
    assert dates.start == (first - EVE if holiday.begins_at_sunset else first)
    assert dates.days == (dates.end - first).days + 1
    assert dates.check_out > dates.check_in == dates.start
    assert holiday.begins_at_sunset is ("sunset" in dates.note)


@settings(max_examples=30)
@given(name=st.text(max_size=100) | st.sampled_from([entry.name for entry in HOLIDAYS]), year=st.none() | st.integers())
def test_any_name_and_year_give_a_holiday_or_an_error_for_the_model(name: str, year: int | None) -> None:
    try:
        holiday = find_holiday(name, year, date(2026, 11, 21))
    except ToolError:
        return
    assert holiday is None or holiday.date_range.start <= holiday.date_range.end


@settings(max_examples=30)
@given(
    country=st.sampled_from(["DE", "il", "United States", "norway", "Deutschland", "IN"]) | st.text(max_size=90),
    year=st.integers(),
)
@example(country="IL", year=2026)
def test_a_countrys_holidays_are_in_their_year_and_in_order(country: str, year: int) -> None:
    try:
        letters, holidays = list_of_country(country, year)
    except ToolError:
        return
    days = [entry["date"] for entry in holidays]
    assert len(letters) == 2
    assert days == sorted(days)
    assert {date.fromisoformat(day).year for day in days} == {year}


async def test_a_country_is_named_in_words_or_by_its_code(database: Database, tmp_path: Path) -> None:
    context = await make_tool_context(database, tmp_path / "files", "calendar", Permission.USER)
    answer = await call(calendar.list_holidays, context, country="Israel", year=2026)
    german = await call(calendar.list_holidays, context, country="de", year=2026)
    with pytest.raises(ToolError, match="I know no country 'Germny'") as caught:
        await call(calendar.list_holidays, context, country="Germny")

    evenings = {entry["name"]: entry.get("begins_at_sunset_of") for entry in answer["holidays"]}
    assert evenings["Yom Kippur"] == "2026-09-20"
    assert {"date": "2026-10-03", "name": "German Unity Day"} in german["holidays"]
    assert "germany" in caught.value.fields["nearest"]
