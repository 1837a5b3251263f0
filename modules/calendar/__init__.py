"""Tools that resolve holidays and date expressions to dates."""

import asyncio
from typing import Annotated, Any

from pydantic import Field

from modules.calendar.holidays import DatedHoliday, find_holiday, get_holiday, list_of_country
from shared.dates.ranges import DateRange
from shared.dates.zones import today_in
from shared.errors import ToolError
from shared.messages import Permission
from shared.tools import ToolContext, tool


@tool(
    requires=Permission.GUEST,
    read_only=True,
    repeatable=True,
    computes=True,
    words=("Looking up {holiday_name}", "Looked up {holiday_name}"),
)
async def resolve_holiday(context: ToolContext, holiday_name: str, year: int | None = None) -> dict[str, Any]:
    """Get a holiday's dates.

    Example: {"holiday_name": "Hanukkah", "year": 2026} -> "start": "2026-12-04"
    """
    today = today_in(context.clock.now(), context.user.time_zone)
    # In a thread: the first call loads the tables of holidays from disk.
    return _to_result(await asyncio.to_thread(get_holiday, holiday_name, year, today))


@tool(
    requires=Permission.GUEST,
    read_only=True,
    repeatable=True,
    computes=True,
    words=("Working out when “{hint}” is", "Worked out when “{hint}” is"),
)
async def resolve_date_hint(context: ToolContext, hint: str) -> dict[str, Any]:
    """Get the dates of e.g. next weekend.

    Example: {"hint": "5 March 2027"} -> "start": "2027-03-05"
    """
    # Imported here: its patterns take a tenth of the time in which a command lists the tools. Where turns run they are.
    from shared.dates.hints import resolve

    now, zone = context.clock.now(), context.user.time_zone
    try:
        # In a thread: a hint of many nested dates takes a tenth of a second.
        date_range = await asyncio.to_thread(resolve, hint, now, zone, week_start=context.user.week_start)
    except ToolError:
        holiday = await asyncio.to_thread(find_holiday, hint, None, today_in(now, zone))
        if holiday is None:
            raise
        return {**_to_result(holiday), "text": f"{holiday.name}: {holiday.date_range.sentence()}"}
    note = {"note": date_range.note} if date_range.note else {}
    return {**_to_fields(date_range), "text": date_range.sentence(), **note}


# Not for guests, whose list of tools is kept short.
@tool(
    requires=Permission.USER,
    read_only=True,
    repeatable=True,
    computes=True,
    words=("Listing the holidays of {country}", "Listed the holidays of {country}"),
)
async def list_holidays(
    context: ToolContext, country: Annotated[str, Field(max_length=80)], year: int | None = None
) -> dict[str, Any]:
    """List a country's holidays in a year, this one unless told.

    Example: {"country": "France", "year": 2027} -> 2027-07-14
    """
    today = today_in(context.clock.now(), context.user.time_zone)
    target_year = today.year if year is None else year
    letters, holidays = await asyncio.to_thread(list_of_country, country, target_year)
    return {"country": letters, "year": target_year, "holidays": holidays}


def _to_result(holiday: DatedHoliday) -> dict[str, Any]:
    dates = holiday.date_range
    return {"name": holiday.name, **_to_fields(dates), "begins_at_sunset": dates.begins_at_sunset, "note": dates.note}


def _to_fields(date_range: DateRange) -> dict[str, Any]:
    days = {"start": date_range.start.isoformat(), "end": date_range.end.isoformat(), "days": date_range.days}
    # The second pair is for stays: a weekend begins with the evening before it.
    stay = {"check_in": date_range.check_in.isoformat(), "check_out": date_range.check_out.isoformat()}
    return {**days, **stay}
