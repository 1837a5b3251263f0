"""What people write about when a job is due."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.errors import ToolError
from shared.schedules.phrases import read_timing

BERLIN = ZoneInfo("Europe/Berlin")
# A Monday.
NOW = datetime(2026, 11, 23, 11, tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("text", "local_time"),
    [
        ("tomorrow at 9", "2026-11-24 09:00"),
        ("9am tomorrow", "2026-11-24 09:00"),
        ("morgen um 9 Uhr 30", "2026-11-24 09:30"),
        ("tomorrow at 9 in the evening", "2026-11-24 21:00"),
        ("tomorrow", "2026-11-24 09:00"),
        ("in 20 minutes", "2026-11-23 11:20"),
        ("in an hour and a half", "2026-11-23 12:30"),
        ("1h30m", "2026-11-23 12:30"),
        ("in 3 days", "2026-11-26 11:00"),
        ("in 3 days at 8", "2026-11-26 08:00"),
        ("at 5", "2026-11-23 17:00"),
        ("noon", "2026-11-23 12:00"),
        ("tonight", "2026-11-23 19:00"),
        ("heute Abend", "2026-11-23 19:00"),
        ("Monday at 9", "2026-11-30 09:00"),
        ("next Friday at 14:30", "2026-12-04 14:30"),
        ("17 January at 8pm", "2027-01-17 20:00"),
        ("2027-01-17 09:00", "2027-01-17 09:00"),
        ("2027-07-17T09:00:00Z", "2027-07-17 11:00"),
        # Clocks skip this time, and go on at 03:00.
        ("2027-03-28 02:30", "2027-03-28 03:00"),
        ("every day at 9", "2026-11-24 09:00"),
        ("every evening", "2026-11-23 19:00"),
        ("every evening at 8pm", "2026-11-23 20:00"),
        ("every 2 hours", "2026-11-23 13:00"),
        ("every weekday at 8:30", "2026-11-24 08:30"),
        ("every Monday, Wednesday and Sunday at 10", "2026-11-25 10:00"),
        ("jeden Montag um 9", "2026-11-30 09:00"),
        ("every 2 weeks at 10", "2026-11-24 10:00"),
        ("every month on the 15th at 7", "2026-12-15 07:00"),
        ("daily at noon", "2026-11-23 12:00"),
        ("cron 0 9 * * 1-5", "2026-11-24 09:00"),
    ],
)
def test_a_text_means_this_moment(text: str, local_time: str) -> None:
    due = read_timing(text, NOW.astimezone(UTC), "Europe/Berlin").next_after(NOW)

    assert due is not None
    assert f"{due.astimezone(BERLIN):%Y-%m-%d %H:%M}" == local_time


@pytest.mark.parametrize(
    "text",
    ["", "xyzzy", "every xyzzy", "25:00", "13pm", "today at 9am", "yesterday at 5", "cron 61 * * * *", "x" * 121],
)
def test_other_texts_are_refused_with_examples(text: str) -> None:
    with pytest.raises(ToolError) as error:
        read_timing(text, NOW, "Europe/Berlin")

    assert "examples" in error.value.fields or "passed" in str(error.value)


WORDS = "every in at 9 9:30 12pm monday tomorrow day 2 weeks month hour half an and on the 31st cron * noon 99999 uhr 0"


@settings(max_examples=150)
@given(st.lists(st.sampled_from(WORDS.split()) | st.text(max_size=6), max_size=8).map(" ".join))
def test_any_text_is_a_timing_or_an_error(text: str) -> None:
    try:
        timing = read_timing(text, NOW, "Europe/Berlin")
    except ToolError:
        return
    due = timing.next_after(NOW)
    assert due is not None
    assert due > NOW
