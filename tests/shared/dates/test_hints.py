"""Date expressions, resolved on Monday, 23 November 2026, unless the test sets another day."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.dates.hints import resolve
from shared.dates.ranges import DateRange
from shared.errors import ToolError

MONDAY = datetime(2026, 11, 23, 12, tzinfo=UTC)
SATURDAY = datetime(2026, 11, 21, 12, tzinfo=UTC)
WORDS = ["17", "19", ".", "-", "/", "to", "in", "3", "weeks", "next", "friday", "of", "end", "january", "first", "kw"]


def days(date_range: DateRange) -> str:
    """Return a date range as the tables below write it."""
    return str(date_range.start) if date_range.start == date_range.end else f"{date_range.start} {date_range.end}"


@pytest.mark.parametrize(
    ("hint", "dates"),
    [
        ("today", "2026-11-23"),
        ("Tomorrow at 5pm", "2026-11-24"),
        ("the day after tomorrow", "2026-11-25"),
        ("yesterday", "2026-11-22"),
        ("übermorgen", "2026-11-25"),
        ("vorgestern", "2026-11-21"),
        ("in 3 weeks", "2026-12-14"),
        ("in drei Wochen", "2026-12-14"),
        ("in a couple of days", "2026-11-25"),
        ("3 days ago", "2026-11-20"),
        ("vor 3 Tagen", "2026-11-20"),
        ("two weeks from Friday", "2026-12-11"),
        ("Freitag in zwei Wochen", "2026-12-11"),
    ],
)
def test_days_near_today(hint: str, dates: str) -> None:
    assert days(resolve(hint, MONDAY)) == dates


@pytest.mark.parametrize(
    ("hint", "on_monday", "on_saturday"),
    [
        ("Friday", "2026-11-27", "2026-11-27"),
        ("this Friday", "2026-11-27", "2026-11-27"),
        ("kommenden Freitag", "2026-11-27", "2026-11-27"),
        ("next Friday", "2026-12-04", "2026-11-27"),
        ("nächsten Freitag", "2026-12-04", "2026-11-27"),
        ("last Friday", "2026-11-20", "2026-11-20"),
        ("Saturday", "2026-11-28", "2026-11-21"),
        ("coming Saturday", "2026-11-28", "2026-11-28"),
        ("Freitag nächste Woche", "2026-12-04", "2026-11-27"),
        ("this weekend", "2026-11-28 2026-11-29", "2026-11-21 2026-11-22"),
        ("next weekend", "2026-12-05 2026-12-06", "2026-11-28 2026-11-29"),
        ("nächstes Wochenende", "2026-12-05 2026-12-06", "2026-11-28 2026-11-29"),
        ("the weekend after next", "2026-12-12 2026-12-13", "2026-12-05 2026-12-06"),
        ("last weekend", "2026-11-21 2026-11-22", "2026-11-14 2026-11-15"),
        ("next week", "2026-11-30 2026-12-06", "2026-11-23 2026-11-29"),
        ("the week after next", "2026-12-07 2026-12-13", "2026-11-30 2026-12-06"),
        ("übernächste Woche", "2026-12-07 2026-12-13", "2026-11-30 2026-12-06"),
        ("Friday to Sunday", "2026-11-27 2026-11-29", "2026-11-27 2026-11-29"),
        ("next Friday to Sunday", "2026-12-04 2026-12-06", "2026-11-27 2026-11-29"),
    ],
)
def test_weekdays_weekends_and_weeks(hint: str, on_monday: str, on_saturday: str) -> None:
    assert days(resolve(hint, MONDAY)) == on_monday
    assert days(resolve(hint, SATURDAY)) == on_saturday


@pytest.mark.parametrize("hint", ["next Friday", "next weekend"])
def test_ambiguous_words_have_a_note_with_the_other_meaning(hint: str) -> None:
    assert "Some mean" in resolve(hint, MONDAY).note
    assert not resolve(hint, SATURDAY).note


@pytest.mark.parametrize(
    ("time_zone", "this", "next_weekend", "first_of_january"),
    [
        ("Europe/Berlin", "2026-11-28 2026-11-29", "2026-12-05 2026-12-06", "2027-01-02 2027-01-03"),
        ("Asia/Dubai", "2026-11-28 2026-11-29", "2026-12-05 2026-12-06", "2027-01-02 2027-01-03"),
        ("Asia/Jerusalem", "2026-11-27 2026-11-28", "2026-12-04 2026-12-05", "2027-01-01 2027-01-02"),
        ("Israel", "2026-11-27 2026-11-28", "2026-12-04 2026-12-05", "2027-01-01 2027-01-02"),
        ("Africa/Cairo", "2026-11-27 2026-11-28", "2026-12-04 2026-12-05", "2027-01-01 2027-01-02"),
        ("Asia/Kabul", "2026-11-26 2026-11-27", "2026-12-03 2026-12-04", "2027-01-07 2027-01-08"),
        ("Asia/Tehran", "2026-11-27", "2026-12-04", "2027-01-01"),
        ("Asia/Calcutta", "2026-11-29", "2026-12-06", "2027-01-03"),
        ("UTC", "2026-11-28 2026-11-29", "2026-12-05 2026-12-06", "2027-01-02 2027-01-03"),
        ("Nowhere/Land", "2026-11-28 2026-11-29", "2026-12-05 2026-12-06", "2027-01-02 2027-01-03"),
    ],
)
@pytest.mark.parametrize("week_start", ["monday", "saturday", "sunday"])
def test_the_weekend_is_that_of_the_country_whatever_day_the_week_begins_with(
    time_zone: str, this: str, next_weekend: str, first_of_january: str, week_start: str
) -> None:
    def dates_of(hint: str) -> str:
        return days(resolve(hint, MONDAY, time_zone, week_start=week_start))

    assert dates_of("this weekend") == this
    assert dates_of("next weekend") == next_weekend
    assert dates_of("first weekend of January") == first_of_january


def test_a_weekend_that_has_begun_is_this_one() -> None:
    assert days(resolve("this weekend", SATURDAY, "Asia/Jerusalem")) == "2026-11-20 2026-11-21"
    assert days(resolve("this weekend", SATURDAY, "Asia/Tehran")) == "2026-11-27"


def test_a_week_begins_with_the_day_that_the_user_has_chosen() -> None:
    assert days(resolve("next week", MONDAY, week_start="sunday")) == "2026-11-29 2026-12-05"


@pytest.mark.parametrize(
    ("hint", "dates"),
    [
        ("end of month", "2026-11-30"),
        ("Ende des Monats", "2026-11-30"),
        ("end of next month", "2026-12-31"),
        ("Anfang März", "2027-03-01"),
        ("mid-March", "2027-03-11 2027-03-20"),
        ("late January", "2027-01-21 2027-01-31"),
        ("next month", "2026-12-01 2026-12-31"),
        ("March", "2027-03-01 2027-03-31"),
        ("last March", "2026-03-01 2026-03-31"),
        ("next year", "2027-01-01 2027-12-31"),
        ("Q1", "2027-01-01 2027-03-31"),
        ("KW 48", "2026-11-23 2026-11-29"),
        ("week 3", "2027-01-18 2027-01-24"),
        ("first Monday of March", "2027-03-01"),
        ("erster Montag im März", "2027-03-01"),
        ("last Friday of the month", "2026-11-27"),
        ("first weekend in March", "2027-03-06 2027-03-07"),
        ("weekend of January 17", "2027-01-16 2027-01-17"),
    ],
)
def test_months_parts_of_months_and_days_in_months(hint: str, dates: str) -> None:
    assert days(resolve(hint, MONDAY)) == dates


@pytest.mark.parametrize(
    ("hint", "dates"),
    [
        ("2026-12-24", "2026-12-24"),
        ("2026-12-24T10:00:00Z", "2026-12-24"),
        ("21.11.26", "2026-11-21"),
        ("21.11.", "2027-11-21"),
        ("January 17", "2027-01-17"),
        ("Jan 17th, 2028", "2028-01-17"),
        ("the 17th of January", "2027-01-17"),
        ("17. Januar", "2027-01-17"),
        ("the 17th", "2026-12-17"),
        ("Friday, January 15", "2027-01-15"),
        ("13/4", "2027-04-13"),
        ("4/13/2027", "2027-04-13"),
        ("5/5", "2027-05-05"),
        ("29 February", "2028-02-29"),
    ],
)
def test_written_dates_without_a_year_are_the_next_such_date(hint: str, dates: str) -> None:
    assert days(resolve(hint, MONDAY)) == dates


@pytest.mark.parametrize(
    ("hint", "dates"),
    [
        ("January 17-19", "2027-01-17 2027-01-19"),
        ("January 17 \N{EN DASH} 19, 2028", "2028-01-17 2028-01-19"),
        ("17.-19. Januar", "2027-01-17 2027-01-19"),
        ("vom 17. bis zum 19. Januar 2027", "2027-01-17 2027-01-19"),
        ("17.01.-19.01.2027", "2027-01-17 2027-01-19"),
        ("Dec 30 - Jan 2", "2026-12-30 2027-01-02"),
        ("December 30 to January 2, 2027", "2026-12-30 2027-01-02"),
        ("2026-12-01/2026-12-05", "2026-12-01 2026-12-05"),
        ("2026-12-01 to 2026-12-05", "2026-12-01 2026-12-05"),
        ("24/12-26/12", "2026-12-24 2026-12-26"),
        ("from the 24th to the 26th", "2026-11-24 2026-11-26"),
        ("between January 5 and January 9", "2027-01-05 2027-01-09"),
        ("November 20-25", "2026-11-20 2026-11-25"),
        ("March to May", "2027-03-01 2027-05-31"),
        ("tomorrow until end of month", "2026-11-24 2026-11-30"),
        ("3 nights from January 17", "2027-01-17 2027-01-20"),
        ("next Friday for 2 nights", "2026-12-04 2026-12-06"),
        ("3 Nächte ab dem 17. Januar", "2027-01-17 2027-01-20"),
    ],
)
def test_ranges_between_two_dates(hint: str, dates: str) -> None:
    assert days(resolve(hint, MONDAY)) == dates


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        ("3/4", "3/4 can mean 3 April or March 4"),
        ("3/4/2027", "can mean"),
        ("30 February", "There is no such day"),
        ("2027-02-30", "There is no such day"),
        ("fifth Friday of February", "There is no such day"),
        ("week 60", "There is no such day"),
        ("in 9999 years", "There is no such day"),
        ("Friday January 17", "17 January 2027 is a Sunday"),
        ("2027-01-19 - 2027-01-17", "17 January 2027 is before 19 January 2027"),
        ("January 19-17", "is before"),
        ("soon", "I don't understand 'soon'"),
        ("", "Give a date"),
        ("x" * 5000, "Give a date"),
    ],
)
def test_invalid_hints_are_refused_with_examples(hint: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        resolve(hint, MONDAY)


def test_an_ambiguous_date_is_refused_with_both_readings() -> None:
    with pytest.raises(ToolError) as caught:
        resolve("3/4", MONDAY)

    assert [days(resolve(example, MONDAY)) for example in caught.value.fields["examples"]] == [
        "2027-04-03",
        "2027-03-04",
    ]


def test_today_is_the_date_in_the_users_time_zone() -> None:
    late = datetime(2026, 11, 23, 23, 30, tzinfo=UTC)

    assert days(resolve("today", late, "Europe/Berlin")) == "2026-11-24"
    assert days(resolve("today", late, "America/New_York")) == "2026-11-23"
    assert days(resolve("today", late, "Mars/Olympus")) == "2026-11-23"


def test_a_date_range_as_a_sentence() -> None:
    assert resolve("today", MONDAY).sentence() == "Monday, 23 November 2026."
    assert resolve("January 17-19", MONDAY).sentence() == (
        "Sunday, 17 January 2027 to Tuesday, 19 January 2027, 3 days with the first and the last."
    )


@given(st.text(max_size=140) | st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join))
def test_any_text_gives_ordered_dates_or_is_refused(hint: str) -> None:
    try:
        date_range = resolve(hint, MONDAY)
    except ToolError:
        return
    assert date_range.start <= date_range.end
