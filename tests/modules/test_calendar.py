"""The tools of the module `calendar`, on Saturday, 21 November 2026, unless the test sets another day."""

from datetime import UTC, date, datetime, timedelta

import pytest
from msgspec.structs import replace

from agent.llm.completions import count_prompt
from agent.tools.modules import discover
from modules import calendar
from modules.calendar.holidays import get_holiday
from modules.calendar.table import HOLIDAYS
from shared.errors import ToolError
from shared.messages import Permission
from shared.settings import Settings
from shared.tools import ToolContext
from tests.support.clocks import SetClock
from tests.support.tool_calls import bare_context, call

SATURDAY = date(2026, 11, 21)


@pytest.fixture
def context() -> ToolContext:
    return bare_context("calendar", clock=SetClock(datetime(2026, 11, 21, 23, 30, tzinfo=UTC)))


async def test_a_holiday_is_returned_with_its_name_dates_and_note(context: ToolContext) -> None:
    assert await call(calendar.resolve_holiday, context, holiday_name="Chanukah") == {
        "name": "Hanukkah",
        "start": "2026-12-04",
        "end": "2026-12-12",
        "days": 8,
        "begins_at_sunset": True,
        "check_in": "2026-12-04",
        "check_out": "2026-12-12",
        "note": "Begins at sunset on 4 December 2026.",
    }


@pytest.mark.parametrize(
    ("name", "year", "first"),
    [
        ("Hanukkah", 2024, "2024-12-26"),
        ("Hanukkah", 2025, "2025-12-15"),
        ("Passover", 2026, "2026-04-02"),
        ("Rosh Hashanah", 2026, "2026-09-12"),
        ("Yom Kippur", 2025, "2025-10-02"),
        ("Sukkot", 2025, "2025-10-07"),
        ("Easter", 2024, "2024-03-31"),
        ("Easter", 2025, "2025-04-20"),
        ("Orthodox Easter", 2024, "2024-05-05"),
        ("Good Friday", 2026, "2026-04-03"),
        ("Pentecost", 2026, "2026-05-24"),
        ("Corpus Christi", 2026, "2026-06-04"),
        ("Shrove Tuesday", 2026, "2026-02-17"),
        ("Thanksgiving", 2026, "2026-11-26"),
        ("Black Friday", 2026, "2026-11-27"),
        ("Memorial Day", 2026, "2026-05-25"),
        ("First Sunday of Advent", 2026, "2026-11-29"),
        ("Buß- und Bettag", 2026, "2026-11-18"),
        ("Ramadan", 2025, "2025-03-01"),
        ("Eid al-Fitr", 2025, "2025-03-30"),
        ("Eid al-Adha", 2025, "2025-06-06"),
        ("Diwali", 2026, "2026-11-08"),
        ("Chinese New Year", 2026, "2026-02-17"),
        ("Mother's Day", 2026, "2026-05-10"),
    ],
)
async def test_holidays_have_the_right_dates(context: ToolContext, name: str, year: int, first: str) -> None:
    holiday = await call(calendar.resolve_holiday, context, holiday_name=name, year=year)
    # `first` is the first whole day.
    start = date.fromisoformat(first) - timedelta(days=1 if holiday["begins_at_sunset"] else 0)
    assert holiday["start"] == start.isoformat()


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("xmas", "Christmas"),
        ("Weihnachten", "Christmas"),
        ("Ostern", "Easter"),
        ("pfingsten", "Pentecost"),
        ("Neujahr", "New Year"),
        ("Jom Kippur", "Yom Kippur"),
        ("4th of July", "US Independence Day"),
        ("New Year\N{RIGHT SINGLE QUOTATION MARK}s Eve", "New Year's Eve"),
        ("next Christmas", "Christmas"),
        ("hannukah", "Hanukkah"),
        ("Thanksgivng", "Thanksgiving"),
        ("Independence Day in India", "Independence Day (India)"),
        ("Norway Constitution Day", "Constitution Day (Norway)"),
        ("National Day in Norway", "Constitution Day (Norway)"),
        ("Nationalfeiertag Deutschland", "German Unity Day (Deutschland)"),
    ],
)
async def test_holidays_are_found_by_all_their_names(context: ToolContext, alias: str, name: str) -> None:
    assert (await call(calendar.resolve_holiday, context, holiday_name=alias))["name"] == name


async def test_a_misspelled_name_is_corrected_with_a_note(context: ToolContext) -> None:
    assert (await call(calendar.resolve_holiday, context, holiday_name="hannukah"))["note"].startswith(
        "Taken as Hanukkah."
    )


def test_without_a_year_the_current_or_next_occurrence_is_returned() -> None:
    assert get_holiday("Hanukkah", None, date(2026, 12, 12)).date_range.start == date(2026, 12, 4)
    assert get_holiday("Hanukkah", None, date(2026, 12, 13)).date_range.start == date(2027, 12, 24)
    assert get_holiday("Hanukkah", None, date(2028, 1, 1)).date_range.start == date(2027, 12, 24)
    assert get_holiday("Easter 2030", None, SATURDAY).date_range.start == date(2030, 4, 21)


def test_every_holiday_occurs_within_the_next_two_years() -> None:
    for holiday in HOLIDAYS:
        for name in (holiday.name, *holiday.others):
            occurrence = get_holiday(name, None, SATURDAY)
            assert SATURDAY <= occurrence.date_range.end < SATURDAY + timedelta(days=730), name
            assert "{" not in occurrence.date_range.note


def test_ramadan_ends_before_eid_and_may_occur_twice_a_year() -> None:
    period = get_holiday("Ramadan", 2030, SATURDAY).date_range

    assert (period.start, period.days) == (date(2030, 1, 4), 30)
    assert "another one that year, from 26 December 2030" in period.note


@pytest.mark.parametrize(
    ("name", "nearest"), [("St. Nicolas evening", "St Nicholas Day"), ("Chanuka lights", "Hanukkah")]
)
async def test_an_unknown_holiday_is_refused_with_similar_names(context: ToolContext, name: str, nearest: str) -> None:
    with pytest.raises(ToolError, match="I know no holiday") as caught:
        await call(calendar.resolve_holiday, context, holiday_name=name)

    assert nearest in caught.value.fields["nearest"]


@pytest.mark.parametrize(("name", "year"), [("Easter", 1600), ("Easter", 3000), ("Diwali", 2090), ("Easter", -5)])
async def test_a_year_outside_of_the_tables_is_refused(context: ToolContext, name: str, year: int) -> None:
    with pytest.raises(ToolError, match=r"I know holidays from 1900 to 2100|I have no date of Diwali in 2090"):
        await call(calendar.resolve_holiday, context, holiday_name=name, year=year)


@pytest.mark.parametrize("name", ["", " ", "in in in", "x" * 5000, "day in us", "\N{SNOWMAN}"])
async def test_an_invalid_name_is_refused(context: ToolContext, name: str) -> None:
    with pytest.raises(ToolError):
        await call(calendar.resolve_holiday, context, holiday_name=name)


async def test_a_hint_is_resolved_to_dates_and_a_sentence(context: ToolContext) -> None:
    assert await call(calendar.resolve_date_hint, context, hint="next weekend") == {
        "start": "2026-11-28",
        "end": "2026-11-29",
        "days": 2,
        "check_in": "2026-11-27",
        "check_out": "2026-11-29",
        "text": "Saturday, 28 November 2026 to Sunday, 29 November 2026, 2 days with the first and the last.",
    }


async def test_an_ambiguous_hint_has_a_note_with_the_other_meaning(context: ToolContext) -> None:
    monday = replace(context, clock=SetClock(datetime(2026, 11, 23, 12, tzinfo=UTC)))

    assert "27 November 2026" in (await call(calendar.resolve_date_hint, monday, hint="next Friday"))["note"]


async def test_a_hint_is_resolved_in_the_users_time_zone_and_week(context: ToolContext) -> None:
    berlin = replace(context, user=replace(context.user, time_zone="Europe/Berlin"))
    jerusalem = replace(context, user=replace(context.user, time_zone="Asia/Jerusalem", week_start="saturday"))

    assert (await call(calendar.resolve_date_hint, context, hint="today"))["start"] == "2026-11-21"
    assert (await call(calendar.resolve_date_hint, berlin, hint="today"))["start"] == "2026-11-22"
    saturdays = replace(context, user=replace(context.user, week_start="saturday"))
    assert (await call(calendar.resolve_date_hint, saturdays, hint="next weekend"))["start"] == "2026-11-28"
    assert (await call(calendar.resolve_date_hint, jerusalem, hint="this weekend"))["start"] == "2026-11-27"


async def test_a_hint_may_be_a_holiday(context: ToolContext) -> None:
    assert (await call(calendar.resolve_date_hint, context, hint="Ostern"))["text"] == "Easter: Sunday, 28 March 2027."
    assert (await call(calendar.resolve_date_hint, context, hint="Hanukkah 2028"))["start"] == "2028-12-12"


async def test_a_hint_that_is_not_understood_is_refused_with_examples(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="I don't understand 'when pigs fly'") as caught:
        await call(calendar.resolve_date_hint, context, hint="when pigs fly")

    assert "next Friday" in caught.value.fields["examples"]


def test_all_tools_are_for_guests_and_their_schemas_are_small() -> None:
    modules = Settings().default_guest_modules
    tools = [tool for tool in discover().tools.values() if tool.module in modules and tool.requires == Permission.GUEST]

    assert len(tools) == 12  # all but list_holidays, search_files and rename_file, which guests are not offered
    # The estimate is an upper one, of 3 bytes a token; JSON in English has more than 4.
    assert count_prompt(tool.schema for tool in tools) * 3 / 4 <= 700
